#include "tools/verify/VerifyModel.h"

#include "codegen/cpu/HostIsa.h"
#include "runtime/device/HostDevice.h"
#include "tools/compiler/Compiler.h"
#include "tools/verify/Bounds.h"
#include "tools/verify/Verification.h"

#include <algorithm>
#include <unistd.h>

namespace gemma::verify {

using compiler::CompileOptions;

static void report(const VerifyOptions &options, const std::string &what) {
  if (options.progress)
    options.progress(what);
}

static std::string describeSizes(const ModelConfig &config) {
  return std::to_string(config.layers()) + " layers, hidden " + std::to_string(config.hidden) +
         ", MLP " + std::to_string(config.intermediate) + ", vocabulary " +
         std::to_string(config.vocab) + ", heads " + std::to_string(config.heads) + " of " +
         std::to_string(config.sliding.headDim) + " and " + std::to_string(config.global.headDim) +
         ", window " + std::to_string(config.sliding.window);
}

/// "bf16", or "bf16, weights i4, token table i8, activations i8".
static std::string describeTypes(const CompileOptions &types) {
  std::string text(name(types.dtype.value_or(ScalarType::F64)));
  if (types.weightType)
    text += ", weights " + std::string(name(*types.weightType));
  if (types.embeddingType && types.codeType)
    text += ", token table " + std::string(name(*types.embeddingType));
  if (types.kvType != types.dtype && types.kvType)
    text += ", caches " + std::string(name(*types.kvType));
  if (types.codeType)
    text += ", activations " + std::string(name(*types.codeType));
  return text;
}

static const char *const quantisedNote =
    "the reference has the quantised weights as they are stored and rounds activations to the same "
    "codes: nodes differ by the roundings of f32 alone; whole: 6 / m * sqrt(layers) more, m the "
    "largest code";

/// The instruction set that the runtime would choose; GEMMA_ISA names another one.
static Expected<std::string> chosenIsa() {
  std::vector<IsaCandidate> candidates;
  for (const codegen::HostIsa &isa : codegen::hostIsas())
    candidates.push_back({isa.name, isa.needs});
  Expected<size_t> index = chooseIsa(candidates);
  if (!index)
    return index.status();
  return std::string(candidates[*index].name);
}

Expected<VerifyReport> verifyModel(const ModelSource &source, const VerifyOptions &options) {
  Expected<ModelConfig> config = reducedConfig(source.config);
  if (!config)
    return config.status();
  Expected<std::string> isa = chosenIsa();
  if (!isa)
    return isa.status();
  Expected<std::unique_ptr<Verification>> verification = Verification::make(*config, options);
  if (!verification)
    return verification.status();

  int64_t window = config->sliding.window ? config->sliding.window : 16;
  CompileOptions compileOptions;
  compileOptions.dtype = options.dtype;
  compileOptions.weightType = options.weightType;
  compileOptions.kvType = options.kvType;
  compileOptions.isas = {*isa};
  compileOptions.maxContext = (3 * window + 5 + 15) / 16 * 16;
  // Shorter than the longest prompt, and no multiple of a page: rings wrap inside of a step.
  compileOptions.maxChunk = window + 7;

  CompileOptions types;
  // Unfused first: if nodes are wrong, the whole model is.
  for (bool fusion : {false, true}) {
    if (fusion && !options.nodes.empty())
      break;
    report(options, std::string("compiling ") + (fusion ? "fused" : "unfused"));
    compileOptions.fusion = fusion;
    Expected<Artifact> artifact = compiler::compileModel(*config, compileOptions);
    if (!artifact)
      return artifact.status();
    Expected<CompileOptions> ofProgram = typeOptions(artifact->program);
    if (!ofProgram)
      return ofProgram.status();
    types = *std::move(ofProgram);
    for (uint64_t seed : {options.seed, options.seed + 1}) {
      if (Status drawn = (*verification)->draw(seed); !drawn)
        return drawn;
      for (int64_t length : {int64_t(13), 3 * window + 5}) {
        report(options, std::string(fusion ? "fused" : "unfused") + ", seed " +
                            std::to_string(seed) + ", " + std::to_string(length) + " tokens");
        PromptPlan prompt = makePrompt(seed, length, config->vocab, compileOptions.maxChunk, true);
        if (Status ran = (*verification)->run(*artifact, prompt); !ran)
          return ran;
      }
    }
  }
  VerifyReport result;
  result.model = source.name + " at reduced sizes: " + describeSizes(*config);
  result.program = describeTypes(types) + ", host " + *isa + ", seeds " +
                   std::to_string(options.seed) + " and " + std::to_string(options.seed + 1) +
                   ", lengths 13 and " + std::to_string(3 * window + 5);
  result.dtype = options.dtype;
  result.notes = {"bounds: " + describeBounds(options.dtype, types.kvType.value_or(options.dtype))};
  if (options.weightType)
    result.notes.push_back(quantisedNote);
  result.rows = (*verification)->rows();
  return result;
}

//===----------------------------------------------------------------------===//
// Artifacts
//===----------------------------------------------------------------------===//

/// One layer of each kind, in the order in which they first come.
static ModelConfig oneLayerEach(const ModelConfig &config) {
  ModelConfig reduced = config;
  reduced.layerKinds.clear();
  for (LayerKind kind : config.layerKinds)
    if (!std::ranges::count(reduced.layerKinds, kind))
      reduced.layerKinds.push_back(kind);
  return reduced;
}

/// The reference holds weights in double, the program its own copy, the file a third.
static Status checkMemory(const ModelConfig &config, ScalarType dtype) {
  uint64_t weights = 0;
  for (const auto &[name, tensor] : requiredTensors(config)) {
    uint64_t count = 1;
    for (int64_t size : tensor.shape)
      count *= uint64_t(size);
    weights += count;
  }
  uint64_t needed = weights * (8 + 2 + byteWidth(dtype));
  uint64_t memory = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  if (needed <= memory)
    return {};
  return badInput("the artifact's layers of each kind have " + std::to_string(weights) +
                  " weights: checking them needs " + std::to_string(needed >> 20) +
                  " MiB of memory, this machine has " + std::to_string(memory >> 20));
}

/// Replaces the program by that of `config`, compiled with the same options, and keeps the code.
/// Counts the kernels that are used.
static Expected<size_t> replaceProgram(Artifact &artifact, const ModelConfig &config,
                                       CompileOptions options) {
  const Program &old = artifact.program;
  options.maxContext = old.limits.maxContext;
  options.maxBatch = old.limits.maxBatch;
  options.maxChunk = old.limits.maxChunk;
  options.fusion = old.fused;
  Expected<Program> planned = compiler::planModel(config, options);
  if (!planned)
    return planned.status();
  for (KernelPlan &kernel : planned->kernels) {
    auto same = std::ranges::find(old.kernels, kernel.name, &KernelPlan::name);
    if (same == old.kernels.end() || same->hash != kernel.hash)
      return badInput("the artifact has no kernel " + kernel.name +
                      " as this compiler makes it: it was compiled by another version (" +
                      artifact.compilerVersion + ")");
    kernel.scratchBytes = same->scratchBytes;
  }
  artifact.program = *std::move(planned);
  return artifact.program.kernels.size();
}

Expected<VerifyReport> verifyArtifact(const std::filesystem::path &file,
                                      const VerifyOptions &given) {
  Expected<Artifact> artifact = readArtifact(file);
  if (!artifact)
    return artifact.status();
  Expected<CompileOptions> types = typeOptions(artifact->program);
  if (!types)
    return types.status();
  VerifyOptions options = given;
  options.dtype = types->dtype.value_or(given.dtype);
  ModelConfig config = oneLayerEach(artifact->program.config);
  if (Status enough = checkMemory(config, options.dtype); !enough)
    return enough;
  size_t kernels = artifact->program.kernels.size();
  Expected<size_t> used = replaceProgram(*artifact, config, *types);
  if (!used)
    return used.status();
  if (artifact->program.fused && !options.nodes.empty())
    return badInput(file.string() + ": nodes are fused, their outputs cannot be seen; compile with "
                                    "--fusion off");
  Expected<std::unique_ptr<Verification>> verification = Verification::make(config, options);
  if (!verification)
    return verification.status();
  report(options, "making random weights");
  if (Status drawn = (*verification)->draw(options.seed); !drawn)
    return drawn;
  int64_t length = std::min<int64_t>(5, artifact->program.limits.maxContext);
  PromptPlan prompt = makePrompt(options.seed, length, config.vocab,
                                 std::min<int64_t>(3, artifact->program.limits.maxChunk), false);
  report(options, "running " + std::to_string(length) + " tokens");
  if (Status ran = (*verification)->run(*artifact, prompt); !ran)
    return ran;

  VerifyReport result;
  result.model = file.string() + ", one layer of each kind: " + describeSizes(config);
  result.program = describeTypes(*types) + ", " + std::to_string(*used) + " of " +
                   std::to_string(kernels) + " kernels, seed " + std::to_string(options.seed) +
                   ", " + std::to_string(length) + " tokens";
  result.dtype = options.dtype;
  result.notes = {"bounds: " +
                  describeBounds(options.dtype, types->kvType.value_or(options.dtype))};
  if (types->codeType)
    result.notes.push_back(quantisedNote);
  if (artifact->program.fused)
    result.notes.push_back("nodes are fused: only the whole is compared");
  result.rows = (*verification)->rows();
  return result;
}

} // namespace gemma::verify
