#include "tools/gemma-bench/Session.h"

#include "codegen/cpu/HostIsa.h"
#include "runtime/checkpoint/ConfigReader.h"
#include "runtime/device/HostDevice.h"
#include "runtime/device/WorkerPool.h"
#include "runtime/weights/PackedWeights.h"
#include "tools/compiler/Compiler.h"
#include "tools/verify/BundledConfigs.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace gemma::bench {
namespace {

/// The 12B's shape at half its width, one layer of each kind, with a vocabulary that keeps the head
/// in proportion: some 350 MB in bf16, more than caches hold.
Expected<ModelConfig> builtInConfig() {
  Problems problems;
  ConfigFile file =
      readConfigText(verify::bundledConfigs().front().json, "the bundled config", problems);
  if (!file.model)
    return internalError("the bundled configuration cannot be read");
  ModelConfig config = *file.model;
  config.layerKinds = {LayerKind::Sliding, LayerKind::Global};
  config.vocab = 32768;
  config.hidden /= 2;
  config.intermediate /= 2;
  config.heads /= 2;
  config.sliding.kvHeads /= 2;
  return config;
}

Expected<Artifact> compileBuiltIn(Progress &progress) {
  Expected<ModelConfig> config = builtInConfig();
  if (!config)
    return config.status();
  // Only for this processor: the others' code would not run.
  const std::vector<codegen::HostIsa> &isas = codegen::hostIsas();
  std::vector<IsaCandidate> candidates;
  candidates.reserve(isas.size());
  for (const codegen::HostIsa &isa : isas)
    candidates.push_back({isa.name, isa.needs});
  Expected<size_t> choice = chooseIsa(candidates);
  if (!choice)
    return choice.status();
  compiler::CompileOptions options;
  options.isas = {isas[*choice].name};
  options.progress = [&](const std::string &step, int64_t, int64_t) {
    progress.update("compiling the built-in model: " + step);
  };
  return compiler::compileModel(*config, options);
}

/// The packed file that is named, or made-up weights.
Expected<WeightArena> loadWeights(const BenchOptions &options, const Program &program,
                                  const MemoryPlan &plan, Progress &progress) {
  if (!options.packedWeights.empty()) {
    Expected<WeightArena> mapped = mapPackedWeights(program, options.packedWeights, /*origin=*/"",
                                                    /*verifyContent=*/false);
    if (std::string text = mappedText(plan); mapped && !text.empty())
      std::fprintf(stderr, "%s: %s\n", options.packedWeights.c_str(), text.c_str());
    return mapped;
  }
  // Before they are made: afterwards they count as taken.
  if (Status status = checkMemory(plan.total(), plan); !status)
    return status.error();
  return WeightArena::madeUp(program, [&](uint64_t done, uint64_t total) {
    progress.update("making weights: " + std::to_string(done >> 20) + " of " +
                    std::to_string(total >> 20) + " MiB");
  });
}

} // namespace

/// The most positions that are cached at any time.
static int64_t positionsNeeded(const BenchOptions &options) {
  int64_t cached = options.context, needed = 0;
  for (int64_t context : options.longContexts)
    cached = std::max(cached, context);
  for (int64_t prompt : options.longPrompts)
    needed = std::max(needed, prompt);
  return std::max(needed, cached + options.decode);
}

/// Fills in the defaults: 512 tokens of prompt, 32 decoded after them, if there is room.
static Status resolveTokens(BenchOptions &options, int64_t most) {
  int64_t longest = std::ranges::max(options.longContexts.empty() ? std::vector<int64_t>{0}
                                                                  : options.longContexts);
  if (!options.decode)
    options.decode = std::clamp<int64_t>(std::min(most / 2, most - longest), 1, 32);
  if (!options.prompt)
    options.prompt = std::clamp<int64_t>(most - options.decode, 1, 512);
  options.context = std::max(options.context, options.prompt);
  auto checkLonger = [](const char *option, const std::vector<int64_t> &lengths, int64_t than,
                        const char *what) -> Status {
    for (int64_t length : lengths)
      if (length <= than)
        return badInput(std::string(option) + ": expected more than " + std::to_string(than) +
                        ", which is " + what + ", got " + std::to_string(length));
    return {};
  };
  if (Status status =
          checkLonger("--long-prompt", options.longPrompts, options.prompt, "the prompt");
      !status)
    return status;
  if (Status status = checkLonger("--long-context", options.longContexts, options.context,
                                  "the context that it is compared with");
      !status)
    return status;
  int64_t needed = positionsNeeded(options);
  if (needed > most)
    return badInput("prompts, contexts and decoded tokens: expected at most " +
                    std::to_string(most) + " positions (the artifact's --max-context), got " +
                    std::to_string(needed));
  return {};
}

Expected<BenchSession> BenchSession::open(BenchOptions &options, Progress &progress) {
  std::error_code code;
  if (std::filesystem::is_directory(options.artifact, code))
    return badInput(options.artifact + ": expected an artifact of gemma-compile, got a folder");
  Expected<Artifact> artifact =
      options.artifact.empty() ? compileBuiltIn(progress) : readArtifact(options.artifact);
  if (!artifact)
    return artifact.status();
  if (artifact->program.family != DeviceFamily::Host)
    return badInput("gemma-bench measures kernels of the host, and " + options.artifact +
                    " was compiled for CUDA devices; gemma-run says what tokens take");
  if (Status status = resolveTokens(options, artifact->program.limits.maxContext); !status)
    return status;
  int64_t needed = positionsNeeded(options);
  ContextOptions contextOptions;
  contextOptions.context = needed;
  contextOptions.batch = 1;
  contextOptions.threads =
      options.threads ? unsigned(options.threads) : WorkerPool::availableThreads();
  ModelOptions modelOptions;
  modelOptions.threads = contextOptions.threads;
  modelOptions.memory = {needed, 1, int64_t(contextOptions.threads)};
  Expected<MemoryPlan> plan = planMemory(artifact->program, modelOptions.memory);
  if (!plan)
    return plan.status();
  Expected<WeightArena> weights = loadWeights(options, artifact->program, *plan, progress);
  if (!weights)
    return weights.status();
  BenchSession session;
  session.packedWeights = options.packedWeights;
  Expected<std::shared_ptr<const Model>> model =
      Model::load(std::move(*artifact), std::move(*weights), modelOptions);
  if (!model)
    return model.status();
  session.model = std::move(*model);
  Expected<std::unique_ptr<Context>> context = Context::create(session.model, contextOptions);
  if (!context)
    return context.status();
  session.runner = std::move(*context);
  Expected<std::unique_ptr<Sequence>> sequence = session.runner->newSequence();
  if (!sequence)
    return sequence.status();
  session.sequence = std::move(*sequence);
  return session;
}

Expected<LimitedSession> LimitedSession::open(BenchOptions &options, Progress &progress) {
  Expected<BenchSession> session = BenchSession::open(options, progress);
  if (!session)
    return session.status();
  Expected<LimitMeter> limits = LimitMeter::create(uint64_t(options.bufferMiB) << 20,
                                                   session->context().threads(), /*onlyMost=*/true);
  if (!limits)
    return limits.status();
  return LimitedSession{std::move(*session), std::move(*limits)};
}

std::span<const int32_t> BenchSession::tokens(int64_t count) {
  // A linear congruential generator: the same tokens in every run.
  uint64_t state = 0x9e3779b97f4a7c15;
  while (int64_t(drawn.size()) < count) {
    state = state * 6364136223846793005u + 1442695040888963407u + drawn.size();
    drawn.push_back(int32_t((state >> 33) % uint64_t(program().config.vocab)));
  }
  return std::span(drawn).first(size_t(count));
}

Status BenchSession::resize(int64_t length) {
  // Taken back, if the sliding layers have not forgotten too much.
  if (length < sequence->length() && sequence->truncate(length))
    return {};
  if (sequence->length() == length)
    return {};
  if (Status status = sequence->truncate(0); !status)
    return status;
  return sequence->makeUp(length);
}

Status BenchSession::step(int64_t count, bool logits) {
  StepRow row{sequence.get(), tokens(count), logits ? LogitsWanted::Last : LogitsWanted::None};
  return runner->step({&row, 1}).status();
}

Json BenchSession::json() const {
  const Artifact &artifact = model->artifact();
  return {{"name", artifact.modelName},
          {"identity", artifact.identity},
          {"instruction_set", model->isa()},
          {"weight_type", name(program().weightType)},
          {"weight_bytes", runner->plan().weights},
          {"packed_weights", packedWeights},
          {"layers", program().config.layers()},
          {"threads", runner->threads()}};
}

} // namespace gemma::bench
