// gemma-bench emu: what kernels for CUDA devices do to memory and tensor cores, at true shapes.
//
// The emulated device runs some blocks of every launch of a step and counts. Counts are facts about
// the PTX, whatever the device; figures of all blocks are those of the blocks that ran, times their
// share. Weights and caches are zeros, so they take little memory, and values do not matter:
// no kernel's control depends on any but sizes, positions and page tables.
#include "runtime/abi/Variants.h"
#include "runtime/device/WorkerPool.h"
#include "runtime/device/emu/EmuExecutor.h"
#include "runtime/engine/Context.h"
#include "tools/compiler/Compiler.h"
#include "tools/gemma-bench/Bench.h"
#include "tools/measure/LaunchCost.h"
#include "tools/verify/BundledConfigs.h"
#include "tools/verify/ModelSource.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <tuple>

namespace gemma::bench {
namespace {

/// A step whose launches are counted.
struct EmuStep {
  int64_t sequences = 1, fresh = 1, cached = 0;

  StepShape shape() const {
    StepShape shape{{}, sequences};
    for (int64_t i = 0; i < sequences; ++i)
      shape.rows.push_back({cached, fresh});
    return shape;
  }
};

/// A count over a launch's blocks, estimated from those that ran.
struct LaunchFigures {
  std::string nodes, kernel;
  uint64_t blocks = 0, ran = 0, threads = 0, sharedBytes = 0;
  emu::Counters counters;
  Cost cost; ///< of the whole launch, at least
  /// Of an attention: (query, key) pairs that its blocks compute over those that are visible, and
  /// the most that whole tiles of keys leave of that: at each end less than a tile beyond what any
  /// query of the block sees. NaN where that is not known.
  double visited = NAN, mostVisited = NAN;

  /// All blocks over those that ran.
  double scale() const { return ran ? double(blocks) / double(ran) : 0; }
  /// Bytes of the sectors that blocks ask for over those that must move once: what caches have to
  /// catch.
  double reread() const {
    double asked = 32.0 * double(counters.globalSectors) * scale();
    return cost.bytes > 0 ? asked / cost.bytes : 0;
  }
  /// Bytes that the blocks of a multiprocessor together have on their way at nine waits in ten,
  /// where there is room for as many as the grid has for each: 132 multiprocessors, and the shared
  /// memory of an A100's, of which a block costs 1 KiB more than it asks for.
  double inFlight() const {
    uint64_t room = (uint64_t(164) << 10) / (sharedBytes + 1024);
    uint64_t resident = std::max<uint64_t>(1, std::min(room, (blocks + 131) / 132));
    return double(counters.bytesInFlightP10() * resident);
  }
  /// Operations of the model over those that tensor cores are given: padding and masked keys are
  /// the rest. NaN without tensor cores.
  double useful() const {
    double issued = double(counters.mmaFlops) * scale();
    return issued > 0 ? cost.flops / issued : NAN;
  }
};

/// What an attention's blocks that ran did of keys: what is masked costs as much as what is not.
/// Blocks are numbered as kernel.attention says. A prompt's are known one by one; a decode's (that
/// share a sequence's keys) all together.
void countKeys(const Program &program, const Launch &launch, const EmuStep &step,
               std::span<const uint64_t> ran, LaunchFigures &figures) {
  const KernelPlan &kernel = program.kernels[size_t(launch.kernel)];
  const CachePlan *cache = nullptr;
  for (const LaunchArgument &argument : launch.arguments)
    if (argument.kind == LaunchArgument::Kind::Cache)
      cache = &program.caches[size_t(argument.index)];
  if (!cache || kernel.queryTile == 0 || kernel.keyTile == 0 || step.fresh % kernel.queryTile != 0)
    return;
  bool decode = step.fresh == 1;
  if (decode ? ran.size() != figures.blocks : step.sequences != 1)
    return;
  auto roundUp = [](int64_t lanes) { return (lanes + 15) / 16 * 16; };
  auto firstVisible = [&](int64_t position) {
    return cache->window ? std::max<int64_t>(0, position - cache->window + 1) : 0;
  };
  double visible = 0, most = 0; // pairs
  auto addTile = [&](int64_t first) {
    int64_t last = first + kernel.queryTile - 1;
    for (int64_t position = first; position <= last; ++position)
      visible += double(position - firstVisible(position) + 1);
    most += double(kernel.queryTile * (last - firstVisible(first) + 1 + 2 * kernel.keyTile));
  };
  if (decode)
    for (int64_t i = 0; i < step.sequences * cache->heads; ++i)
      addTile(step.cached);
  else
    for (uint64_t block : ran)
      if (int64_t first = int64_t(block) / cache->heads * kernel.queryTile; first < step.fresh)
        addTile(step.cached + first);
  int64_t rows = roundUp(kernel.queryTile * program.config.heads / cache->heads);
  double keys = double(figures.counters.mmaFlops) / (4 * double(rows * roundUp(cache->dim)));
  if (visible == 0)
    return;
  figures.visited = keys * double(kernel.queryTile) / visible;
  figures.mostVisited = most / visible;
}

/// Some numbers below `count`, evenly spaced, the first and the last among them.
std::vector<uint64_t> spread(uint64_t count, uint64_t most) {
  uint64_t picked = std::min(count, most);
  std::vector<uint64_t> numbers;
  numbers.reserve(picked);
  for (uint64_t i = 0; i < picked; ++i)
    numbers.push_back(picked == 1 ? 0 : i * (count - 1) / (picked - 1));
  return numbers;
}

/// Launches that move no more run whole: blocks that share a sequence's keys differ (some have
/// none, the last one combines), and a few of them say little of the others.
constexpr double wholeBelow = 12.0 * (1 << 20);
constexpr double wholeBelowFlops = 1e9;

bool runsWhole(const Cost &cost) {
  return cost.bytes <= wholeBelow && cost.flops <= wholeBelowFlops;
}

/// One layer of each kind that the model has: the others are the same kernels.
ModelConfig oneLayerOfEach(ModelConfig config) {
  std::vector<LayerKind> kinds;
  for (LayerKind kind : config.layerKinds)
    if (std::ranges::find(kinds, kind) == kinds.end())
      kinds.push_back(kind);
  config.layerKinds = kinds;
  return config;
}

class EmuBench {
public:
  EmuBench(const BenchOptions &options, std::string name, Progress &progress)
      : options(options), name(std::move(name)), progress(progress) {}

  Status open(const ModelConfig &config);
  Status count(const EmuStep &step);
  Json json() const { return {{"input", name}, {"steps", steps}}; }

private:
  Status fill(int64_t length);
  Status runStep(const EmuStep &step);
  std::vector<int32_t> tokens(int64_t count) const { return std::vector<int32_t>(size_t(count)); }
  void print(const EmuStep &step, const Variant &variant,
             const std::vector<LaunchFigures> &launches);
  static Json json(const LaunchFigures &launch);

  const BenchOptions &options;
  std::string name;
  Progress &progress;
  std::shared_ptr<const Model> model;
  std::unique_ptr<Context> context;
  std::vector<std::unique_ptr<Sequence>> sequences;
  Json steps = Json::array();
};

Status EmuBench::open(const ModelConfig &config) {
  compiler::CompileOptions compile;
  compile.dtype = ScalarType::BF16;
  compile.targets = {options.target};
  compile.maxBatch = *std::ranges::max_element(options.batches);
  compile.maxChunk = std::max(options.prompt, compile.maxBatch);
  compile.maxContext = std::max(options.context + 1, options.prompt);
  compile.progress = [&](const std::string &step, int64_t, int64_t) {
    progress.update("compiling " + name + ": " + step);
  };
  Expected<Artifact> artifact = compiler::compileModel(oneLayerOfEach(config), compile);
  if (!artifact)
    return artifact.status();
  Expected<WeightArena> weights = WeightArena::zeros(artifact->program);
  if (!weights)
    return weights.status();
  ContextOptions contextOptions;
  contextOptions.threads =
      options.threads ? unsigned(options.threads) : WorkerPool::availableThreads();
  ModelOptions modelOptions;
  modelOptions.threads = contextOptions.threads;
  modelOptions.memory = {0, 0, int64_t(contextOptions.threads)};
  Expected<std::shared_ptr<const Model>> loaded =
      Model::load(std::move(*artifact), std::move(*weights), modelOptions);
  if (!loaded)
    return loaded.status();
  model = std::move(*loaded);
  Expected<std::unique_ptr<Context>> made = Context::create(model, contextOptions);
  if (!made)
    return made.status();
  context = std::move(*made);
  return {};
}

/// Gives every sequence `length` tokens without running a block.
Status EmuBench::fill(int64_t length) {
  context->device().emulated()->measure(
      {[](const KernelCall &) { return std::vector<uint64_t>(); }, nullptr});
  for (const std::unique_ptr<Sequence> &sequence : sequences)
    if (length > 0)
      if (Status status =
              context->extend(*sequence, tokens(length), LogitsWanted::None, ChunkResult());
          !status)
        return status;
  return {};
}

Status EmuBench::runStep(const EmuStep &step) {
  std::vector<int32_t> fresh = tokens(step.fresh);
  std::vector<StepRow> rows;
  rows.reserve(sequences.size());
  for (const std::unique_ptr<Sequence> &sequence : sequences)
    rows.push_back({sequence.get(), fresh, LogitsWanted::Last});
  return context->step(rows).status();
}

Status EmuBench::count(const EmuStep &step) {
  sequences.clear();
  for (int64_t i = 0; i < step.sequences; ++i) {
    Expected<std::unique_ptr<Sequence>> sequence = context->newSequence();
    if (!sequence)
      return sequence.status();
    sequences.push_back(std::move(*sequence));
  }
  if (Status status = fill(step.cached); !status)
    return status;

  const Program &program = model->program();
  StepShape shape = step.shape();
  size_t index = variantFor(program, shape.sizes());
  if (index == program.variants.size())
    return internalError("no variant for a step of " + std::to_string(step.sequences) +
                         " sequences of " + std::to_string(step.fresh) + " tokens");
  const Variant &variant = program.variants[index];
  std::vector<LaunchFigures> launches;
  LaunchFigures current;
  std::vector<uint64_t> ran;
  auto costOf = [&](size_t number) { return launchCost(program, variant.launches[number], shape); };
  context->device().emulated()->measure(
      {[&](const KernelCall &call) {
         current.blocks = call.blocks;
         bool whole = runsWhole(costOf(launches.size()));
         ran = spread(call.blocks, whole ? call.blocks : uint64_t(options.blocks));
         return ran;
       },
       [&](const KernelCall &, const emu::LaunchReport &report) {
         current.ran = report.counters.blocks;
         current.counters = report.counters;
       }});
  context->observeLaunches([&](size_t variantIndex, size_t number) {
    const Launch &launch = variant.launches[number];
    // Blocks that did not run took no tickets: the next launch would find those of the others. (The
    // emulated device's memory is the host's.)
    for (size_t i = 0; i < launch.arguments.size(); ++i)
      if (launch.arguments[i].kind == LaunchArgument::Kind::Tickets)
        std::memset(const_cast<std::byte *>(context->argumentData(variantIndex, number, i)), 0,
                    size_t(launch.arguments[i].bytes));
    const KernelPlan &kernel = program.kernels[size_t(launch.kernel)];
    current.nodes = nodesOf(program, launch);
    current.kernel = kernel.name;
    current.threads = kernel.threads;
    current.sharedBytes = kernel.sharedBytes;
    current.cost = costOf(number);
    countKeys(program, launch, step, ran, current);
    launches.push_back(std::exchange(current, {}));
    progress.update(name + ": " + variant.name + ", launch " + std::to_string(number + 1) + " of " +
                    std::to_string(variant.launches.size()));
  });
  Status status = runStep(step);
  context->observeLaunches(nullptr);
  context->device().emulated()->measure({});
  if (!status || interrupted)
    return status;
  print(step, variant, launches);
  Json list = Json::array();
  for (const LaunchFigures &launch : launches)
    list.push_back(json(launch));
  steps.push_back({{"variant", variant.name},
                   {"sequences", step.sequences},
                   {"tokens_each", step.fresh},
                   {"cached", step.cached},
                   {"launches", std::move(list)}});
  return {};
}

void EmuBench::print(const EmuStep &step, const Variant &variant,
                     const std::vector<LaunchFigures> &launches) {
  std::printf("%s, %s: %lld x %lld token%s after %lld\n", name.c_str(), variant.name.c_str(),
              static_cast<long long>(step.sequences), static_cast<long long>(step.fresh),
              step.fresh == 1 ? "" : "s", static_cast<long long>(step.cached));
  std::printf("  %7s %4s %7s %8s %7s %6s %7s %8s %9s %7s %7s %7s  %s\n", "blocks", "ran", "threads",
              "shared", "sectors", "wide", "re-read", "banks", "in flight", "mma", "keys",
              "balance", "nodes");
  for (const LaunchFigures &launch : launches) {
    char useful[16] = "-", flight[16] = "-", visited[16] = "-";
    if (!std::isnan(launch.visited))
      std::snprintf(visited, sizeof visited, "%.3f", launch.visited);
    if (!std::isnan(launch.useful()))
      std::snprintf(useful, sizeof useful, "%.3f", launch.useful());
    if (!launch.counters.bytesInFlight.empty())
      std::snprintf(flight, sizeof flight, "%.1f KiB",
                    double(launch.counters.bytesInFlightP10()) / 1024);
    std::printf("  %7llu %4llu %7llu %4.0f KiB %7.3f %6.3f %7.2f %+7.1f%% %9s %7s %7s %7.2f  %s\n",
                static_cast<unsigned long long>(launch.blocks),
                static_cast<unsigned long long>(launch.ran),
                static_cast<unsigned long long>(launch.threads), double(launch.sharedBytes) / 1024,
                launch.counters.sectorEfficiency(), launch.counters.wideFraction(), launch.reread(),
                100 * launch.counters.wavefrontExcess(), flight, useful, visited,
                launch.counters.blockBalance(), launch.nodes.c_str());
  }
}

Json EmuBench::json(const LaunchFigures &launch) {
  const emu::Counters &counters = launch.counters;
  Json out = {{"nodes", launch.nodes},
              {"kernel", launch.kernel},
              {"blocks", launch.blocks},
              {"blocks_run", launch.ran},
              {"threads", launch.threads},
              {"shared_bytes", launch.sharedBytes},
              {"bytes", launch.cost.bytes},
              {"flops", launch.cost.flops},
              {"instructions", counters.instructions},
              {"barriers", counters.barriers},
              {"sector_efficiency", counters.sectorEfficiency()},
              {"wide_fraction", counters.wideFraction()},
              {"reread", launch.reread()},
              {"wavefront_excess", counters.wavefrontExcess()},
              {"block_balance", counters.blockBalance()}};
  if (!counters.bytesInFlight.empty())
    out.update({{"bytes_in_flight_p10", counters.bytesInFlightP10()},
                {"multiprocessor_in_flight", launch.inFlight()}});
  if (!std::isnan(launch.useful()))
    out["mma_useful"] = launch.useful();
  if (!std::isnan(launch.visited)) {
    out["keys_visited"] = launch.visited;
    out["keys_of_bound"] = launch.visited / launch.mostVisited;
  }
  return out;
}

/// More useful FLOPs than were counted and scaled up: the blocks that ran had less than their share
/// of the work (splits without keys), and say little of the others.
constexpr double poorSample = 1.25;

/// Decode's launches that move more have many steps a block, so that what is on its way counts.
constexpr double longFrom = 48.0 * (1 << 20);

/// The worst figures, each among the launches that it is about. Of launches with tensor cores those
/// count of which the sample is a fair one.
void judge(const Json &model, BudgetCheck &budget) {
  auto bytes = [](const Json &launch) { return launch["bytes"].get<double>(); };
  auto isRows = [](const Json &, const Json &launch) { return !launch.contains("mma_useful"); };
  auto isTensor = [&](const Json &, const Json &launch) {
    return launch.contains("mma_useful") && launch["mma_useful"].get<double>() <= poorSample;
  };
  auto isAttention = [](const Json &launch) {
    return launch["nodes"].get<std::string>().find("attn.core") != std::string::npos;
  };
  auto isProjection = [&](const Json &step, const Json &launch) {
    return isTensor(step, launch) && !isAttention(launch);
  };
  auto isDecode = [](const Json &step) { return step["tokens_each"] == 1; };
  struct Figure {
    const char *budget, *key;
    bool least; ///< is the worst
    std::function<bool(const Json &step, const Json &launch)> about;
  };
  const Figure figures[] = {
      {"sector_efficiency", "sector_efficiency", true, isTensor},
      {"wide_fraction", "wide_fraction", true, isTensor},
      {"wavefront_excess", "wavefront_excess", false,
       [&](const Json &step, const Json &launch) {
         return isRows(step, launch) || isTensor(step, launch);
       }},
      {"decode_reread", "reread", false,
       [&](const Json &step, const Json &launch) {
         return isTensor(step, launch) && isDecode(step) && bytes(launch) >= wholeBelow;
       }},
      {"decode_in_flight", "multiprocessor_in_flight", true,
       [&](const Json &step, const Json &launch) {
         return isProjection(step, launch) && isDecode(step) && bytes(launch) >= longFrom;
       }},
      {"prefill_mma_useful", "mma_useful", true,
       [&](const Json &step, const Json &launch) {
         return isProjection(step, launch) && !isDecode(step) &&
                launch["nodes"].get<std::string>() != "lm_head"; // which computes one row
       }},
      {"projection_balance", "block_balance", false, isProjection},
      {"keys_of_bound", "keys_of_bound", false,
       [](const Json &, const Json &launch) { return launch.contains("keys_of_bound"); }},
  };
  for (const Figure &figure : figures) {
    std::optional<double> worst;
    std::string what;
    for (const Json &step : model["steps"])
      for (const Json &launch : step["launches"]) {
        if (!figure.about(step, launch))
          continue;
        double value = launch[figure.key].get<double>();
        if (worst && (figure.least ? value >= *worst : value <= *worst))
          continue;
        worst = value;
        what = ", " + step["variant"].get<std::string>();
        what.append(", ").append(launch["nodes"].get<std::string>());
      }
    std::string input = model["input"].get<std::string>();
    if (worst)
      budget.check(input + what, figure.budget, *worst);
    else
      std::fprintf(stderr, "budget: %s: no launch to judge %s by\n", input.c_str(), figure.budget);
  }
}

} // namespace

Status benchEmu(BenchOptions options) {
  if (!options.target.starts_with("emu-"))
    return usage("--target: expected an emulated device (emu-sm_80), got " + options.target);
  if (options.inputs.empty())
    for (const verify::BundledConfig &config : verify::bundledConfigs())
      options.inputs.emplace_back(config.key);
  if (options.batches.empty())
    options.batches = {1, 8, 32};
  Progress progress;
  Json list = Json::array();
  for (const std::string &input : options.inputs) {
    Expected<verify::ModelSource> source = verify::findModel(input);
    if (!source)
      return source.status();
    int64_t most = std::min<int64_t>(source->config.maxPositions, 262144);
    BenchOptions resolved = options;
    for (auto [value, normal, limit, what] :
         {std::tuple(&resolved.context, int64_t(4096), most - 1, "--context"),
          {&resolved.prompt, int64_t(512), most, "--prompt"}}) {
      if (!*value)
        *value = std::min(normal, limit);
      if (*value > limit)
        return usage(std::string(what) + ": expected at most " + std::to_string(limit) + " with " +
                     input + ", got " + std::to_string(*value));
    }
    EmuBench bench(resolved, input, progress);
    if (Status status = bench.open(source->config); !status)
      return status;
    std::vector<EmuStep> steps;
    steps.reserve(options.batches.size() + 1);
    for (int64_t batch : options.batches)
      steps.push_back({batch, 1, resolved.context});
    steps.push_back({1, resolved.prompt, 0});
    for (const EmuStep &step : steps) {
      if (Status status = bench.count(step); !status)
        return status;
      if (interrupted)
        return {};
    }
    list.push_back(bench.json());
  }
  return finishReport(options, "emu", 1, {{"target", options.target}, {"models", list}},
                      [&](BudgetCheck &budget) {
                        for (const Json &model : list)
                          judge(model, budget);
                      });
}

} // namespace gemma::bench
