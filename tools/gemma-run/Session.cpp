#include "tools/gemma-run/Session.h"

#include "runtime/device/WorkerPool.h"
#include "runtime/weights/PackedWeights.h"

#include "runtime/support/Json.h"
#include "tools/driver/PackingProgress.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>

namespace gemma::run {

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// For somebody who gives a checkpoint instead of an artifact: what to type.
Status refuseCheckpoint(const std::filesystem::path &path) {
  std::filesystem::path folder = path;
  if (folder.filename().empty())
    folder = folder.parent_path();
  std::string name = std::filesystem::absolute(folder).filename().string();
  return badInput(path.string() + " is a checkpoint folder, not an artifact; compile it first:\n" +
                  "  gemma-compile " + folder.string() + " -o " + name + ".gemma");
}

/// Says so if mapped weights and the rest are more than memory.
void sayIfLargerThanMemory(const std::string &file, const Program &program,
                           const MemoryRequest &request) {
  Expected<MemoryPlan> plan = planMemory(program, request);
  std::string text = plan ? mappedText(*plan) : ""; // a plan that is refused is refused at load
  if (!text.empty())
    std::fprintf(stderr, "%s: %s\n", file.c_str(), text.c_str());
}

/// Packed weights: a file that the command line names, whatever it was packed from, or what lies
/// beside the artifact, which must be of what the artifact was compiled for.
Expected<WeightArena> mapWeights(const Artifact &artifact, const std::string &file, bool named,
                                 const RunOptions &options, const MemoryRequest &request) {
  std::string origin = named && !options.verifyWeights ? "" : weightsOrigin(artifact);
  Expected<WeightArena> weights =
      mapPackedWeights(artifact.program, file, origin, options.verifyWeights);
  if (!weights)
    return named ? weights.status()
                 : badInput(weights.error().message +
                            "; pack it again, remove it, or give --weights DIR");
  if (!options.quiet)
    sayIfLargerThanMemory(file, artifact.program, request);
  return weights;
}

/// The weights from where they are: a packed file that is named or lies beside the artifact, else
/// the checkpoint's folder or the generator of synthetic ones.
Expected<std::shared_ptr<const Model>> loadModel(Artifact artifact, const RunOptions &options,
                                                 const ModelOptions &modelOptions) {
  std::error_code code;
  std::string packed = options.packedWeights;
  if (packed.empty() && std::filesystem::is_regular_file(options.weights, code))
    packed = options.weights;
  bool named = !packed.empty();
  if (packed.empty() && options.weights.empty() &&
      std::filesystem::exists(options.artifact + ".weights", code))
    packed = options.artifact + ".weights";
  if (!packed.empty()) {
    Expected<WeightArena> weights =
        mapWeights(artifact, packed, named, options, modelOptions.memory);
    if (!weights)
      return weights.status();
    return Model::load(std::move(artifact), std::move(*weights), modelOptions);
  }
  return loadWithOwnWeights(std::move(artifact), options.weights, options.verifyWeights,
                            modelOptions);
}

} // namespace

Expected<Session> Session::open(const RunOptions &options) {
  auto start = Clock::now();
  Expected<DeviceChoice> device = DeviceChoice::parse(options.device);
  if (!device)
    return usage("--" + device.error().message);
  if (!options.packedWeights.empty() && !options.weights.empty())
    return usage("--packed-weights: goes without --weights");
  std::error_code code;
  if (std::filesystem::is_directory(options.artifact, code)) {
    if (std::filesystem::exists(std::filesystem::path(options.artifact) / "config.json", code))
      return refuseCheckpoint(options.artifact);
    return badInput(options.artifact + ": expected an artifact of gemma-compile, got a folder");
  }
  Expected<Artifact> artifact = readArtifact(options.artifact);
  if (!artifact)
    return artifact.status();
  Session session;
  if (const std::optional<std::string> &text = artifact->tokenizer) {
    Expected<Tokenizer> tokenizer =
        Tokenizer::fromJson(*text, options.artifact + ": tokenizer.json");
    if (!tokenizer)
      return tokenizer.status();
    session.tokenizer.emplace(std::move(*tokenizer));
  }
  ContextOptions contextOptions;
  contextOptions.context = options.context.value_or(0);
  contextOptions.batch = 1;
  contextOptions.threads = unsigned(options.threads.value_or(WorkerPool::availableThreads()));
  driver::PackingProgress progress(options.quiet);
  ModelOptions modelOptions;
  modelOptions.threads = contextOptions.threads;
  modelOptions.memory = {contextOptions.context, 1, int64_t(contextOptions.threads)};
  modelOptions.device = *device;
  modelOptions.progress = [&](uint64_t done, uint64_t total) { progress.update(done, total); };
  Expected<std::shared_ptr<const Model>> model =
      loadModel(std::move(*artifact), options, modelOptions);
  if (!model)
    return model.status();
  session.model = std::move(*model);
  if (!session.model->whyNotCuda().empty() && !options.quiet)
    std::fprintf(stderr, "running on the emulated device, thousands of times slower: %s\n",
                 session.model->whyNotCuda().c_str());
  Expected<std::unique_ptr<Context>> context = Context::create(session.model, contextOptions);
  if (!context)
    return context.status();
  session.context = std::move(*context);
  session.loadSeconds = secondsSince(start);
  return session;
}

Expected<Tokenizer> Session::requireTokenizer(std::string_view what) const {
  if (tokenizer)
    return *tokenizer;
  return badInput(std::string(what) +
                  " needs a tokenizer, which the artifact does not have; --tokens does not");
}

Expected<SamplingOptions> samplingOptions(const RunOptions &options, const Artifact &artifact) {
  bool asked = options.temperature || options.topK || options.topP || options.minP;
  SamplingOptions sampling;
  const std::optional<GenerationDefaults> &defaults = artifact.generation;
  if (options.greedy || (!asked && !(defaults && defaults->doSample.value_or(false))))
    return sampling;
  GenerationDefaults from = defaults.value_or(GenerationDefaults());
  sampling.temperature = options.temperature.value_or(from.temperature.value_or(1));
  sampling.topK = options.topK.value_or(from.topK.value_or(0));
  sampling.topP = options.topP.value_or(from.topP.value_or(1));
  sampling.minP = options.minP.value_or(from.minP.value_or(0));
  if (!(sampling.temperature >= 0) || !std::isfinite(sampling.temperature))
    return usage("--temperature: expected a number from 0 on");
  sampling.seed = options.seed.value_or(uint64_t(std::random_device()()) << 32 |
                                        uint64_t(std::random_device()()));
  return sampling;
}

Expected<std::vector<int32_t>> parseTokenList(std::string_view text) {
  std::vector<int32_t> ids;
  constexpr std::string_view blanks = " \t\r\n";
  auto skipBlanks = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  };
  skipBlanks();
  if (text.empty())
    return badInput("--tokens: expected at least one token, got none");
  for (;;) {
    std::string_view word = text.substr(0, text.find_first_of(" \t\r\n,"));
    int32_t id = 0;
    auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (word.empty() || error != std::errc() || stop != word.data() + word.size())
      return badInput("--tokens: expected ids between commas or blanks, got " +
                      quoteForMessage(word));
    ids.push_back(id);
    text.remove_prefix(word.size());
    skipBlanks();
    if (text.empty())
      return ids;
    if (text.front() == ',') {
      text.remove_prefix(1);
      skipBlanks();
    }
  }
}

} // namespace gemma::run
