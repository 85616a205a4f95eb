// gemma-bench kernels: every kernel of an artifact at its own shapes, as the runtime runs it.
//
// Of each variant the largest step that leads to it is run again and again, and the launches are
// timed one by one: a kernel finds caches, memory and threads as it does in use.
#include "runtime/abi/Variants.h"
#include "tools/gemma-bench/Bench.h"
#include "tools/gemma-bench/Session.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

namespace gemma::bench {
namespace {

/// Seconds of steps that a round takes at least, unless one step takes longer.
constexpr double roundSeconds = 0.3;

/// One kernel within one variant.
struct KernelSeries {
  std::string node;        ///< what its first launch computes
  int64_t launches = 0;    ///< of a step
  Cost cost;               ///< of a step
  Series seconds;          ///< a launch, on average over the round
  Series bandwidth, flops; ///< bytes/s, operations/s
};

struct VariantSeries {
  const Variant *variant = nullptr;
  int64_t tokens = 0, cached = 0;
  std::map<int64_t, KernelSeries> kernels; ///< by index into Program::kernels
  Series stepSeconds;
};

/// The most tokens, at most `most`, of a step that leads to variant `index`, the sequence having
/// `cached` tokens if it is one token and none otherwise.
std::optional<int64_t> tokensFor(const Program &program, size_t index, int64_t most,
                                 int64_t cached) {
  for (int64_t tokens = most; tokens >= 1; --tokens) {
    StepShape shape{{{tokens == 1 ? cached : 0, tokens}}, 1};
    if (variantFor(program, shape.sizes()) == index)
      return tokens;
  }
  return std::nullopt;
}

class KernelBench {
public:
  KernelBench(const BenchOptions &options, BenchSession &session, Progress &progress)
      : options(options), session(session), progress(progress), program(session.program()) {}

  Status measure(LimitMeter &limits, int64_t rounds);
  void print(const LimitMeter &limits) const;
  Json json(const LimitMeter &limits) const;
  /// The share of decode's time that its launches would take at the limits.
  void judge(BudgetCheck &budget, const LimitMeter &limits) const;

private:
  Status measureRound(VariantSeries &series);
  void add(VariantSeries &series, const std::vector<double> &seconds, int64_t steps);

  const BenchOptions &options;
  BenchSession &session;
  Progress &progress;
  const Program &program;
  std::vector<VariantSeries> variants;
  std::vector<std::string> notReached;
  /// Where each variant's rounds begin among those of the limits.
  std::vector<LimitSeries> variantLimits;
};

Status KernelBench::measure(LimitMeter &limits, int64_t rounds) {
  int64_t most = std::min(options.prompt, program.limits.maxChunk);
  int64_t cached = options.context;
  for (size_t index = 0; index < program.variants.size(); ++index) {
    const Variant &variant = program.variants[index];
    std::optional<int64_t> tokens = tokensFor(program, index, most, cached);
    if (!tokens) {
      notReached.push_back(variant.name);
      continue;
    }
    VariantSeries series{&variant, *tokens, *tokens == 1 ? cached : 0, {}, {}};
    StepShape shape{{{series.cached, *tokens}}, 1};
    for (const Launch &launch : variant.launches) {
      KernelSeries &kernel = series.kernels[launch.kernel];
      if (!kernel.launches++)
        kernel.node = nodesOf(program, launch);
      kernel.cost += launchCost(program, launch, shape);
    }
    if (Status status = session.resize(series.cached); !status)
      return status;
    // The first step pays for pages and caches that later ones find.
    if (Status status = session.step(*tokens, true); !status)
      return status;
    size_t before = limits.most().read.values.size();
    for (int64_t round = 0; round < rounds && !interrupted; ++round) {
      limits.measure(progress);
      progress.update(variant.name + ": round " + std::to_string(round + 1) + " of " +
                      std::to_string(rounds));
      if (Status status = measureRound(series); !status)
        return status;
    }
    LimitSeries own{limits.most().threads, {}, {}, {}};
    for (size_t i = before; i < limits.most().read.values.size(); ++i) {
      own.read.add(limits.most().read.values[i]);
      own.flops.add(limits.most().flops.values[i]);
    }
    variants.push_back(std::move(series));
    variantLimits.push_back(std::move(own));
  }
  return {};
}

Status KernelBench::measureRound(VariantSeries &series) {
  std::vector<double> seconds(series.variant->launches.size(), 0);
  Stopwatch round, launch;
  session.context().observeLaunches([&](size_t, size_t index) {
    seconds[index] += launch.seconds();
    launch = Stopwatch();
  });
  int64_t steps = 0;
  double inSteps = 0;
  do {
    if (Status status = session.resize(series.cached); !status)
      return status;
    Stopwatch step;
    launch = Stopwatch();
    if (Status status = session.step(series.tokens, true); !status)
      return status;
    inSteps += step.seconds();
    ++steps;
  } while (round.seconds() < roundSeconds && !interrupted);
  session.context().observeLaunches(nullptr);
  series.stepSeconds.add(inSteps / double(steps));
  add(series, seconds, steps);
  return {};
}

void KernelBench::add(VariantSeries &series, const std::vector<double> &seconds, int64_t steps) {
  std::map<int64_t, double> sums;
  for (size_t i = 0; i < seconds.size(); ++i)
    sums[series.variant->launches[i].kernel] += seconds[i] / double(steps);
  for (auto &[index, kernel] : series.kernels) {
    kernel.seconds.add(sums[index] / double(kernel.launches));
    kernel.bandwidth.add(kernel.cost.bytes / sums[index]);
    kernel.flops.add(kernel.cost.flops / sums[index]);
  }
}

void KernelBench::print(const LimitMeter &limits) const {
  limits.print();
  for (size_t v = 0; v < variants.size(); ++v) {
    const VariantSeries &series = variants[v];
    double step = series.stepSeconds.median();
    std::printf("%s: %lld token%s after %lld, %.3f ms a step (median)\n",
                series.variant->name.c_str(), static_cast<long long>(series.tokens),
                series.tokens == 1 ? "" : "s", static_cast<long long>(series.cached), step * 1e3);
    std::printf("  %8s %10s %6s %8s %6s %9s %6s  %s\n", "launches", "us each", "time", "GB/s",
                "/read", "GFLOP/s", "/f32", "nodes");
    std::vector<const KernelSeries *> order;
    order.reserve(series.kernels.size());
    for (const auto &[index, kernel] : series.kernels)
      order.push_back(&kernel);
    auto time = [](const KernelSeries *kernel) {
      return kernel->seconds.median() * double(kernel->launches);
    };
    std::sort(order.begin(), order.end(),
              [&](const KernelSeries *a, const KernelSeries *b) { return time(a) > time(b); });
    for (const KernelSeries *kernel : order)
      std::printf("  %8lld %10.1f %5.1f%% %8.1f %6.2f %9.1f %6.2f  %s\n",
                  static_cast<long long>(kernel->launches), kernel->seconds.median() * 1e6,
                  100 * time(kernel) / step, kernel->bandwidth.median() / 1e9,
                  ratio(kernel->bandwidth, variantLimits[v].read).median(),
                  kernel->flops.median() / 1e9,
                  ratio(kernel->flops, variantLimits[v].flops).median(), kernel->node.c_str());
  }
  for (const std::string &variant : notReached)
    std::printf("%s: not measured: no step of one sequence leads to it\n", variant.c_str());
}

Json KernelBench::json(const LimitMeter &limits) const {
  Json list = Json::array();
  for (size_t v = 0; v < variants.size(); ++v) {
    const VariantSeries &series = variants[v];
    Json kernels = Json::array();
    for (const auto &[index, kernel] : series.kernels) {
      const KernelPlan &plan = program.kernels[size_t(index)];
      kernels.push_back({{"name", plan.name},
                         {"hash", plan.hash},
                         {"nodes", kernel.node},
                         {"launches", kernel.launches},
                         {"seconds", kernel.seconds.median()},
                         {"seconds_rounds", kernel.seconds.values},
                         {"bytes", kernel.cost.bytes / double(kernel.launches)},
                         {"flops", kernel.cost.flops / double(kernel.launches)},
                         {"of_read", ratio(kernel.bandwidth, variantLimits[v].read).median()},
                         {"of_f32", ratio(kernel.flops, variantLimits[v].flops).median()}});
    }
    list.push_back({{"variant", series.variant->name},
                    {"tokens", series.tokens},
                    {"cached", series.cached},
                    {"step_seconds", series.stepSeconds.median()},
                    {"kernels", std::move(kernels)}});
  }
  return {{"limits", limits.json()},
          {"model", session.json()},
          {"variants", std::move(list)},
          {"not_measured", notReached}};
}

void KernelBench::judge(BudgetCheck &budget, const LimitMeter &limits) const {
  budget.check("this machine", "steadiness", limits.steadiness());
  for (size_t v = 0; v < variants.size(); ++v) {
    // The step's time at the limits, launch by launch, over the time it took.
    Series reached;
    const LimitSeries &limit = variantLimits[v];
    for (size_t round = 0; round < limit.read.values.size(); ++round) {
      double least = 0;
      for (const auto &[index, kernel] : variants[v].kernels)
        least += std::max(kernel.cost.bytes / limit.read.values[round],
                          kernel.cost.flops / limit.flops.values[round]);
      reached.add(least / variants[v].stepSeconds.values[round]);
    }
    budget.check(variants[v].variant->name,
                 variants[v].tokens == 1 ? "decode_of_limits" : "prefill_of_limits",
                 reached.median());
  }
}

} // namespace

Status benchKernels(BenchOptions options) {
  int64_t rounds = options.rounds ? options.rounds : 5;
  Progress progress;
  Expected<LimitedSession> opened = LimitedSession::open(options, progress);
  if (!opened)
    return opened.status();
  auto &[session, limits] = *opened;
  KernelBench bench(options, session, progress);
  if (Status status = bench.measure(limits, rounds); !status)
    return status;
  if (interrupted)
    return {};
  bench.print(limits);
  return finishReport(options, "kernels", rounds, bench.json(limits),
                      [&](BudgetCheck &budget) { bench.judge(budget, limits); });
}

} // namespace gemma::bench
