// gemma-bench model: prefill and decode of a whole model, in rounds with the limits.
#include "tools/gemma-bench/Bench.h"
#include "tools/gemma-bench/BusyProcesses.h"
#include "tools/gemma-bench/Session.h"

#include <algorithm>
#include <cstdio>

namespace gemma::bench {
namespace {

/// One way of running, with what it costs a token.
struct Speed {
  Cost cost; ///< of all its tokens
  int64_t tokens = 0;
  Series tokensPerSecond, bandwidth, flops;

  void add(double seconds) {
    tokensPerSecond.add(double(tokens) / seconds);
    bandwidth.add(cost.bytes / seconds);
    flops.add(cost.flops / seconds);
  }
  Share ofRead(const LimitSeries &limits) const { return {bandwidth, limits.read}; }
  Share ofFlops(const LimitSeries &limits) const { return {flops, limits.flops}; }
  Json json(const LimitSeries &limits) const {
    return {{"tokens", tokens},
            {"bytes_per_token", cost.bytes / double(tokens)},
            {"flops_per_token", cost.flops / double(tokens)},
            {"tokens_per_second", tokensPerSecond.json()},
            {"of_read", ofRead(limits).json()},
            {"of_f32", ofFlops(limits).json()}};
  }
  void print(const char *name, const LimitSeries &limits) const {
    Share read = ofRead(limits), arithmetic = ofFlops(limits);
    std::printf("  %-8s %9.2f (%.2f) tokens/s   %8.3g bytes/token, %.3f (%.3f) of read   %8.3g "
                "FLOP/token, %.3f (%.3f) of f32\n",
                name, tokensPerSecond.best(), tokensPerSecond.median(), cost.bytes / double(tokens),
                read.best, read.median, cost.flops / double(tokens), arithmetic.best,
                arithmetic.median);
  }
};

/// Appends `count` tokens in steps of at most `chunk`, as appendCost() counts.
Status append(BenchSession &session, int64_t count, int64_t chunk, bool everyLogits,
              const char *what, Progress &progress) {
  for (int64_t done = 0; done < count && !interrupted;) {
    progress.update(std::string(what) + ": " + std::to_string(done) + " of " +
                    std::to_string(count) + " tokens");
    int64_t tokens = std::min(count - done, chunk);
    if (Status status = session.step(tokens, everyLogits || done + tokens == count); !status)
      return status;
    done += tokens;
  }
  return {};
}

/// Seconds that `count` tokens take after `cached` ones.
Expected<double> decodeAfter(BenchSession &session, int64_t cached, int64_t count,
                             Progress &progress) {
  if (Status status = session.resize(cached, progress); !status)
    return status.error();
  Stopwatch watch;
  if (Status status = append(session, count, 1, true, "decode", progress); !status)
    return status.error();
  return watch.seconds();
}

} // namespace

Status benchModel(BenchOptions options) {
  int64_t rounds = options.rounds ? options.rounds : 9;
  Progress progress;
  Expected<BusyProcesses> busy = BusyProcesses::start(options.beside);
  if (!busy)
    return busy.status();
  Expected<LimitedSession> opened = LimitedSession::open(options, progress);
  if (!opened)
    return opened.status();
  auto &[session, meter] = *opened;
  int64_t chunk = session.program().limits.maxChunk;
  int64_t cached = options.context;
  Speed prefill, decode, beside;
  prefill.tokens = options.prompt;
  decode.tokens = beside.tokens = options.decode;
  std::optional<Cost> prefillCost =
      appendCost(session.program(), 0, options.prompt, chunk, /*everyLogits=*/false);
  std::optional<Cost> decodeCost =
      appendCost(session.program(), cached, options.decode, 1, /*everyLogits=*/true);
  if (!prefillCost || !decodeCost)
    return badInput(options.artifact + ": no variant for one sequence");
  prefill.cost = *prefillCost;
  decode.cost = beside.cost = *decodeCost;

  for (int64_t round = 0; round < rounds && !interrupted; ++round) {
    if (Status status = session.resize(0, progress); !status)
      return status;
    if (round == 0) // pages and caches that later steps find
      if (Status status = append(session, 1, 1, true, "first step", progress); !status)
        return status;
    if (Status status = session.resize(0, progress); !status)
      return status;
    meter.measure(progress);
    Stopwatch prefillWatch;
    if (Status status = append(session, options.prompt, chunk, false, "prefill", progress); !status)
      return status;
    double prefillSeconds = prefillWatch.seconds();
    Expected<double> decodeSeconds = decodeAfter(session, cached, options.decode, progress);
    if (!decodeSeconds)
      return decodeSeconds.status();
    Expected<double> besideSeconds = 0.0;
    if (busy->count()) {
      busy->spin(true);
      besideSeconds = decodeAfter(session, cached, options.decode, progress);
      busy->spin(false);
    }
    if (!besideSeconds)
      return besideSeconds.status();
    if (interrupted) // a round that was cut short counts for nothing
      return {};
    prefill.add(prefillSeconds);
    decode.add(*decodeSeconds);
    if (busy->count())
      beside.add(*besideSeconds);
  }
  if (interrupted)
    return {};

  const LimitSeries &limits = meter.most();
  meter.print();
  std::printf(
      "%lld tokens of prompt, then %lld decoded after %lld, %u threads, %s; best (median)\n",
      static_cast<long long>(options.prompt), static_cast<long long>(options.decode),
      static_cast<long long>(cached), session.context().threads(), session.loaded().isa().c_str());
  prefill.print("prefill", limits);
  decode.print("decode", limits);
  Json report = {{"limits", meter.json()},
                 {"model", session.json()},
                 {"cached", cached},
                 {"prefill", prefill.json(limits)},
                 {"decode", decode.json(limits)}};
  Share ofFair;
  if (busy->count()) {
    double fair =
        fairShare(WorkerPool::availableThreads(), session.context().threads(), busy->count());
    ofFair = Share(beside.tokensPerSecond, decode.tokensPerSecond);
    ofFair.best /= fair;
    ofFair.median /= fair;
    std::printf(
        "  beside %lld busy process%s: decode %.2f (%.2f) tokens/s; the fair share is %.3f of "
        "it alone, and it keeps %.3f (%.3f) of that\n",
        static_cast<long long>(busy->count()), busy->count() == 1 ? "" : "es",
        beside.tokensPerSecond.best(), beside.tokensPerSecond.median(), fair, ofFair.best,
        ofFair.median);
    report["beside"] = {{"processes", busy->count()},
                        {"fair_share", fair},
                        {"tokens_per_second", beside.tokensPerSecond.json()},
                        {"of_fair_share", ofFair.json()}};
  }
  return finishReport(options, "model", rounds, std::move(report), [&](BudgetCheck &budget) {
    budget.check("this machine", "steadiness", meter.steadiness());
    budget.check("prefill", "prefill_of_f32", prefill.ofFlops(limits).best);
    budget.check("decode", "decode_of_read", decode.ofRead(limits).best);
    if (busy->count())
      budget.check("decode", "decode_of_fair_share", ofFair.median);
  });
}

} // namespace gemma::bench
