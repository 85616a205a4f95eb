// gemma-bench model: prefill and decode of a whole model, in rounds with the limits.
#include "tools/gemma-bench/Bench.h"
#include "tools/gemma-bench/BusyProcesses.h"
#include "tools/gemma-bench/Session.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

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
  void print(const std::string &name, const LimitSeries &limits) const {
    Share read = ofRead(limits), arithmetic = ofFlops(limits);
    std::printf("  %-8s %9.2f (%.2f) tokens/s   %8.3g bytes/token, %.3f (%.3f) of read   %8.3g "
                "FLOP/token, %.3f (%.3f) of f32\n",
                name.c_str(), tokensPerSecond.best(), tokensPerSecond.median(),
                cost.bytes / double(tokens), read.best, read.median, cost.flops / double(tokens),
                arithmetic.best, arithmetic.median);
  }
};

/// What a token costs more than in `base`, in units of what its bytes and operations more take at
/// the limits, whichever takes longer.
Share costOfMore(const Speed &more, const Speed &base, const LimitSeries &limits) {
  double bytes = more.cost.bytes / double(more.tokens) - base.cost.bytes / double(base.tokens);
  double flops = more.cost.flops / double(more.tokens) - base.cost.flops / double(base.tokens);
  auto cost = [&](double of, double than, double read, double arithmetic) {
    return (1 / of - 1 / than) / std::max(bytes / read, flops / arithmetic);
  };
  Series rounds;
  for (size_t i = 0; i < more.tokensPerSecond.values.size(); ++i)
    rounds.add(cost(more.tokensPerSecond.values[i], base.tokensPerSecond.values[i],
                    limits.read.values[i], limits.flops.values[i]));
  Share share;
  share.best = cost(more.tokensPerSecond.best(), base.tokensPerSecond.best(), limits.read.best(),
                    limits.flops.best());
  share.median = rounds.median();
  return share;
}

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

/// Prefill of some prompt lengths, decode after some context lengths: the first of each is what the
/// others are compared with.
class ModelBench {
public:
  ModelBench(const BenchOptions &options, BenchSession &session, BusyProcesses &busy,
             Progress &progress)
      : options(options), session(session), busy(busy), progress(progress),
        chunk(session.program().limits.maxChunk) {}

  /// What all of it costs.
  Status prepare();
  /// One round; adds nothing if it is interrupted.
  Status measure(LimitMeter &meter);
  void print(const LimitSeries &limits) const;
  Json json(const LimitSeries &limits) const;
  void judge(BudgetCheck &budget, const LimitSeries &limits) const;

private:
  /// Seconds to append `count` tokens after `cached` ones, in steps of at most `most`.
  Expected<double> secondsFor(int64_t cached, int64_t count, int64_t most, bool everyLogits,
                              const char *what);
  double fairShareAlone() const {
    return fairShare(WorkerPool::availableThreads(), session.context().threads(), busy.count());
  }
  Share ofFairShare() const;

  const BenchOptions &options;
  BenchSession &session;
  BusyProcesses &busy;
  Progress &progress;
  int64_t chunk;
  std::vector<int64_t> prompts, contexts;
  std::vector<Speed> prefills, decodes;
  Speed beside; ///< decode after the first context
};

Status ModelBench::prepare() {
  prompts = {options.prompt};
  prompts.insert(prompts.end(), options.longPrompts.begin(), options.longPrompts.end());
  contexts = {options.context};
  contexts.insert(contexts.end(), options.longContexts.begin(), options.longContexts.end());
  auto costOf = [&](std::vector<Speed> &speeds, int64_t cached, int64_t count, int64_t most,
                    bool everyLogits) {
    std::optional<Cost> cost = appendCost(session.program(), cached, count, most, everyLogits);
    if (!cost)
      return false;
    speeds.emplace_back().cost = *cost;
    speeds.back().tokens = count;
    return true;
  };
  bool known = true;
  for (int64_t prompt : prompts)
    known = known && costOf(prefills, 0, prompt, chunk, /*everyLogits=*/false);
  for (int64_t context : contexts)
    known = known && costOf(decodes, context, options.decode, 1, /*everyLogits=*/true);
  if (!known)
    return badInput(options.artifact + ": no variant for one sequence");
  beside = decodes.front();
  // Pages and caches that later steps find.
  return secondsFor(0, 1, 1, true, "first step").status();
}

Expected<double> ModelBench::secondsFor(int64_t cached, int64_t count, int64_t most,
                                        bool everyLogits, const char *what) {
  if (Status status = session.resize(cached); !status)
    return status.error();
  Stopwatch watch;
  if (Status status = append(session, count, most, everyLogits, what, progress); !status)
    return status.error();
  return watch.seconds();
}

Status ModelBench::measure(LimitMeter &meter) {
  meter.measure(progress);
  std::vector<double> seconds;
  auto take = [&](const Expected<double> &measured) {
    if (measured)
      seconds.push_back(*measured);
    return measured.status();
  };
  // The first prompt comes last: decoding after as many positions goes on in its caches.
  for (size_t i = prompts.size(); i-- > 0 && !interrupted;)
    if (Status status = take(secondsFor(0, prompts[i], chunk, false, "prefill")); !status)
      return status;
  for (size_t i = 0; i < contexts.size() && !interrupted; ++i)
    if (Status status = take(secondsFor(contexts[i], options.decode, 1, true, "decode")); !status)
      return status;
  if (busy.count() && !interrupted) {
    busy.spin(true);
    Status status = take(secondsFor(contexts[0], options.decode, 1, true, "decode"));
    busy.spin(false);
    if (!status)
      return status;
  }
  if (interrupted) // a round that was cut short counts for nothing
    return {};
  const double *next = seconds.data();
  for (size_t i = prompts.size(); i-- > 0;)
    prefills[i].add(*next++);
  for (Speed &decode : decodes)
    decode.add(*next++);
  if (busy.count())
    beside.add(*next);
  return {};
}

Share ModelBench::ofFairShare() const {
  Share share(beside.tokensPerSecond, decodes[0].tokensPerSecond);
  share.best /= fairShareAlone();
  share.median /= fairShareAlone();
  return share;
}

void ModelBench::print(const LimitSeries &limits) const {
  std::printf(
      "%lld tokens of prompt, then %lld decoded after %lld, %u threads, %s; best (median)\n",
      static_cast<long long>(options.prompt), static_cast<long long>(options.decode),
      static_cast<long long>(options.context), session.context().threads(),
      session.loaded().isa().c_str());
  prefills[0].print("prefill", limits);
  decodes[0].print("decode", limits);
  for (size_t i = 1; i < prompts.size(); ++i) {
    prefills[i].print("prefill of " + std::to_string(prompts[i]), limits);
    Share share(prefills[i].tokensPerSecond, prefills[0].tokensPerSecond);
    std::printf("    %.3f (%.3f) of the speed of %lld\n", share.best, share.median,
                static_cast<long long>(prompts[0]));
  }
  for (size_t i = 1; i < contexts.size(); ++i) {
    decodes[i].print("decode after " + std::to_string(contexts[i]), limits);
    Share more = costOfMore(decodes[i], decodes[0], limits);
    std::printf(
        "    a token takes %.2f ms more than after %lld: %.2f (%.2f) times what its reads and "
        "FLOPs more take at the limits\n",
        1e3 / decodes[i].tokensPerSecond.best() - 1e3 / decodes[0].tokensPerSecond.best(),
        static_cast<long long>(contexts[0]), more.best, more.median);
  }
  if (busy.count()) {
    Share share = ofFairShare();
    std::printf(
        "  beside %lld busy process%s: decode %.2f (%.2f) tokens/s; the fair share is %.3f of "
        "it alone, and it keeps %.3f (%.3f) of that\n",
        static_cast<long long>(busy.count()), busy.count() == 1 ? "" : "es",
        beside.tokensPerSecond.best(), beside.tokensPerSecond.median(), fairShareAlone(),
        share.best, share.median);
  }
}

Json ModelBench::json(const LimitSeries &limits) const {
  Json report = {{"cached", options.context},
                 {"prefill", prefills[0].json(limits)},
                 {"decode", decodes[0].json(limits)}};
  for (size_t i = 1; i < prompts.size(); ++i) {
    Json longer = prefills[i].json(limits);
    longer["of_prefill"] = Share(prefills[i].tokensPerSecond, prefills[0].tokensPerSecond).json();
    report["long_prompts"].push_back(std::move(longer));
  }
  for (size_t i = 1; i < contexts.size(); ++i) {
    Json longer = decodes[i].json(limits);
    longer["cached"] = contexts[i];
    longer["cost_of_more"] = costOfMore(decodes[i], decodes[0], limits).json();
    report["long_contexts"].push_back(std::move(longer));
  }
  if (busy.count())
    report["beside"] = {{"processes", busy.count()},
                        {"fair_share", fairShareAlone()},
                        {"tokens_per_second", beside.tokensPerSecond.json()},
                        {"of_fair_share", ofFairShare().json()}};
  return report;
}

void ModelBench::judge(BudgetCheck &budget, const LimitSeries &limits) const {
  budget.check("prefill", "prefill_of_f32", prefills[0].ofFlops(limits).best);
  budget.check("decode", "decode_of_read", decodes[0].ofRead(limits).best);
  if (busy.count())
    budget.check("decode", "decode_of_fair_share", ofFairShare().median);
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
  ModelBench bench(options, session, *busy, progress);
  if (Status status = bench.prepare(); !status)
    return status;
  for (int64_t round = 0; round < rounds && !interrupted; ++round)
    if (Status status = bench.measure(meter); !status)
      return status;
  if (interrupted)
    return {};
  const LimitSeries &limits = meter.most();
  meter.print();
  bench.print(limits);
  Json report = {{"limits", meter.json()}, {"model", session.json()}};
  report.update(bench.json(limits));
  return finishReport(options, "model", rounds, std::move(report), [&](BudgetCheck &budget) {
    budget.check("this machine", "steadiness", meter.steadiness());
    bench.judge(budget, limits);
  });
}

} // namespace gemma::bench
