#include "tools/gemma-bench/Session.h"

#include "codegen/cpu/HostIsa.h"
#include "runtime/checkpoint/ConfigReader.h"
#include "runtime/device/HostDevice.h"
#include "runtime/device/WorkerPool.h"
#include "tools/compiler/Compiler.h"
#include "tools/verify/BundledConfigs.h"

#include <algorithm>
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

} // namespace

/// Fills in the defaults: 512 tokens of prompt, 32 decoded after them, if there is room.
static Status resolveTokens(BenchOptions &options, int64_t most) {
  if (!options.decode)
    options.decode = std::clamp<int64_t>(most / 2, 1, 32);
  if (!options.prompt)
    options.prompt = std::clamp<int64_t>(most - options.decode, 1, 512);
  options.context = std::max(options.context, options.prompt);
  int64_t needed = options.context + options.decode;
  if (needed > most)
    return badInput("prompt or context and decoded tokens: expected at most " +
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
  int64_t needed = options.context + options.decode;
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
  // Before the weights: afterwards they count as taken.
  if (Status status = checkMemory(plan->total(), *plan); !status)
    return status;
  Expected<WeightArena> weights =
      WeightArena::madeUp(artifact->program, [&](uint64_t done, uint64_t total) {
        progress.update("making weights: " + std::to_string(done >> 20) + " of " +
                        std::to_string(total >> 20) + " MiB");
      });
  if (!weights)
    return weights.status();
  BenchSession session;
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

Status BenchSession::resize(int64_t length, Progress &progress) {
  if (length < sequence->length())
    if (Status status = sequence->truncate(length); !status) {
      // Sliding layers have forgotten too much: from the start.
      if (Status emptied = sequence->truncate(0); !emptied)
        return emptied;
    }
  while (sequence->length() < length && !interrupted) {
    progress.update("filling the caches: " + std::to_string(sequence->length()) + " of " +
                    std::to_string(length) + " positions");
    int64_t count = std::min(length - sequence->length(), program().limits.maxChunk);
    StepRow row{sequence.get(), tokens(count), LogitsWanted::None};
    Expected<StepResult> result = runner->step({&row, 1});
    if (!result)
      return result.status();
  }
  return {};
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
          {"layers", program().config.layers()},
          {"threads", runner->threads()}};
}

} // namespace gemma::bench
