#include "tools/compiler/Compiler.h"

#include "tools/compiler/DeviceCode.h"
#include "tools/compiler/DeviceReport.h"

#include "codegen/artifact/BuildProgram.h"
#include "codegen/cpu/HostCodegen.h"
#include "codegen/gpu/PtxEmitter.h"
#include "dialect/gemma/Gemma.h"
#include "dialect/kernel/Kernel.h"
#include "import/Import.h"
#include "passes/Pipelines.h"
#include "runtime/abi/ProgramSizes.h"
#include "runtime/engine/Model.h"
#include "runtime/support/File.h"
#include "tools/driver/TypeFlags.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <memory>
#include <utility>

using namespace mlir;

namespace gemma::compiler {

/// Bytes that the logits of one step may take.
static constexpr int64_t kLogitBytes = 64ll << 20;

uint64_t parameterCount(const ModelConfig &config) {
  uint64_t count = 0;
  for (const auto &[name, tensor] : requiredTensors(config)) {
    uint64_t elements = 1;
    for (int64_t dim : tensor.shape)
      elements *= uint64_t(dim);
    count += elements;
  }
  return count;
}

/// The type of resolved options, which have one.
static ScalarType dtypeOf(const CompileOptions &options) {
  return options.dtype.value_or(ScalarType::BF16);
}

static bool isForCuda(const CompileOptions &options) { return options.targets.front() != "host"; }

/// Whether the targets exist and go together, and with the other options.
static Status checkTargets(const CompileOptions &options) {
  if (options.targets.empty())
    return usage("--target: expected at least one of " + knownTargets() + ", got none");
  for (const std::string &target : options.targets)
    if (target != "host" && !isDeviceTarget(target))
      return usage("--target: expected some of " + knownTargets() + ", got " + target);
  for (size_t i = 0; i < options.targets.size(); ++i) {
    const std::string &target = options.targets[i];
    if ((target == "host") != (options.targets.front() == "host"))
      return usage("--target: the host and CUDA devices need an artifact each, got " +
                   options.targets.front() + " and " + target);
    if (std::find(options.targets.begin(), options.targets.begin() + std::ptrdiff_t(i), target) !=
        options.targets.begin() + std::ptrdiff_t(i))
      return usage("--target: got " + target + " twice");
  }
  if (isForCuda(options) && options.dtype != ScalarType::BF16)
    return usage("--target: kernels for CUDA devices multiply bf16, expected --dtype bf16, got " +
                 std::string(name(dtypeOf(options))));
  if (isForCuda(options) && !options.isas.empty())
    return usage("--isa: instruction sets are the host's, and the target is " +
                 options.targets.front());
  return {};
}

static bool isInteger(std::optional<ScalarType> type) {
  return type == ScalarType::I8 || type == ScalarType::I4;
}

/// Checks the types of weights and fills in those that follow from others.
static Status resolveWeightTypes(CompileOptions &options, const ModelConfig &config) {
  ScalarType dtype = dtypeOf(options);
  auto check = [&](const char *flag, const std::optional<ScalarType> &type) -> Status {
    if (!type || *type == dtype)
      return {};
    std::string got = driver::flagOf(*type);
    if (!isInteger(type))
      return usage(std::string(flag) + ": expected int8, int4 or the --dtype, " +
                   std::string(name(dtype)) + ", got " + got);
    if (isForCuda(options))
      return usage(std::string(flag) + ": " + got + " is not supported yet with --target " +
                   options.targets.front() + ", expected bf16");
    if (dtype == ScalarType::F64)
      return usage(std::string(flag) + ": " + got +
                   " weights go with --dtype f32 or bf16, got f64");
    return {};
  };
  if (Status status = check("--weight-type", options.weightType); !status)
    return status;
  if (Status status = check("--embedding-type", options.embeddingType); !status)
    return status;
  if (!options.weightType)
    options.weightType = dtype;
  if (!options.embeddingType)
    options.embeddingType =
        options.weightType == ScalarType::I4 ? ScalarType::I8 : *options.weightType;
  if (options.embeddingType == ScalarType::I4 && config.hidden % scaleGroup != 0)
    return usage("--embedding-type: rows of int4 are whole groups of " +
                 std::to_string(scaleGroup) + ", and hidden_size is " +
                 std::to_string(config.hidden) + "; expected int8");
  if (options.codeType && options.codeType != ScalarType::I8 && options.codeType != ScalarType::I16)
    return usage("--activations: expected int8 or int16, got " + driver::flagOf(*options.codeType));
  if (options.codeType && !isInteger(options.weightType) && !isInteger(options.embeddingType))
    return usage("--activations: goes with --weight-type int8 or int4");
  return {};
}

/// Checks the type of caches and fills it in.
static Status resolveCacheType(CompileOptions &options) {
  ScalarType dtype = dtypeOf(options);
  if (!options.kvType)
    options.kvType = dtype;
  std::string got = driver::flagOf(*options.kvType);
  auto refuse = [&](std::string expected) {
    return usage("--kv-type: " + expected.append(", got ").append(got));
  };
  if (isForCuda(options) && options.kvType != ScalarType::BF16)
    return refuse("kernels for CUDA devices read bf16 caches, expected bf16 with --target " +
                  options.targets.front());
  if (dtype == ScalarType::F64 && options.kvType != ScalarType::F64)
    return refuse("caches of --dtype f64 are f64");
  if (options.kvType != dtype && options.kvType != ScalarType::F32 &&
      options.kvType != ScalarType::BF16 && options.kvType != ScalarType::I8)
    return refuse("expected f32, bf16 or int8");
  return {};
}

/// The instruction sets that the options name, or all that make a difference.
static std::vector<codegen::HostIsa> wantedIsas(const CompileOptions &options) {
  bool integers = isInteger(options.weightType) || isInteger(options.embeddingType);
  std::vector<codegen::HostIsa> isas;
  for (const codegen::HostIsa &isa : codegen::hostIsas())
    if (options.isas.empty() ? integers || !isa.onlyForIntegers()
                             : llvm::is_contained(options.isas, isa.name))
      isas.push_back(isa);
  return isas;
}

/// Largest number of selected rows of a step: a chunk's worth unless the logits grow too large.
static int64_t maxLogitRows(const ModelConfig &config, const CompileOptions &options) {
  int64_t width = options.dtype == ScalarType::F64 ? 8 : 4;
  int64_t affordable = kLogitBytes / (config.vocab * width);
  return std::min(options.maxChunk, std::max(options.maxBatch, affordable));
}

Expected<CompileOptions> resolveOptions(const CompileOptions &options, const ModelConfig &config) {
  CompileOptions out = options;
  if (!out.dtype && out.weightType && isFloat(*out.weightType))
    out.dtype = out.weightType;
  if (!out.dtype)
    out.dtype = config.dtype == ScalarType::F16 ? ScalarType::F32 : config.dtype;
  if (out.dtype != ScalarType::F64 && out.dtype != ScalarType::F32 && out.dtype != ScalarType::BF16)
    return usage("--dtype: expected f64, f32 or bf16, got " + std::string(name(*out.dtype)));
  if (Status status = checkTargets(out); !status)
    return status.error();
  if (Status status = resolveWeightTypes(out, config); !status)
    return status.error();
  if (Status status = resolveCacheType(out); !status)
    return status.error();
  for (const std::string &isa : out.isas)
    if (!codegen::findHostIsa(isa)) {
      std::string expected = "--isa: expected some of ", between;
      for (const codegen::HostIsa &one : codegen::hostIsas())
        expected.append(std::exchange(between, ", ")).append(one.name);
      return usage(expected.append(", got ").append(isa));
    }
  int64_t most = std::min<int64_t>(config.maxPositions, 262144);
  if (out.maxContext == 0)
    out.maxContext = std::min<int64_t>(8192, most);
  auto within = [](const char *what, int64_t value, int64_t lowest, int64_t largest) -> Status {
    if (value >= lowest && value <= largest)
      return {};
    return usage(std::string(what) + ": expected " + std::to_string(lowest) + " to " +
                 std::to_string(largest) + ", got " + std::to_string(value));
  };
  if (Status s = within("--max-context", out.maxContext, 1, most); !s)
    return s.error();
  if (Status s = within("--max-batch", out.maxBatch, 1, 256); !s)
    return s.error();
  if (Status s = within("--max-chunk", out.maxChunk, 1, 262144); !s)
    return s.error();
  if (Status s = within("--top", out.top, 0, std::min<int64_t>(config.vocab, 256)); !s)
    return s.error();
  out.maxChunk = std::max(std::min(out.maxChunk, out.maxContext), out.maxBatch);
  return out;
}

namespace {
/// A module on its way through the phases, with everything that was diagnosed.
class Compilation {
public:
  Compilation(const ModelConfig &config, const CompileOptions &options)
      : config(config), options(options), context(makeRegistry()),
        handler(&context, [this](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error && messages.size() < 2000)
            messages += (messages.empty() ? "" : "; ") + diagnostic.str();
          return success();
        }) {
    context.loadAllAvailableDialects();
    context.disableMultithreading();
  }

  Status runTo(Phase last);
  Expected<Program> program();
  Expected<std::vector<KernelBinary>> objects();
  Expected<std::vector<TargetReport>> report();
  std::string text();

private:
  static DialectRegistry makeRegistry() {
    DialectRegistry registry;
    registerImportDialects(registry);
    registry.insert<kernel::KernelDialect>();
    codegen::registerHostCodegenDialects(registry);
    codegen::registerGpuCodegenDialects(registry);
    return registry;
  }
  Status failure(const std::string &where) {
    return internalError(where + " failed: " + (messages.empty() ? "no diagnostic" : messages));
  }
  Status runPhase(Phase phase);
  void report(const std::string &step) {
    if (options.progress)
      options.progress(step, ++stepsDone, stepsInAll);
  }

  const ModelConfig &config;
  const CompileOptions options;
  MLIRContext context;
  ScopedDiagnosticHandler handler;
  std::string messages;
  OwningOpRef<ModuleOp> module;
  int64_t stepsDone = 0, stepsInAll = 4 + int64_t(isForCuda(options) ? 1 + options.targets.size()
                                                                     : wantedIsas(options).size());
};
} // namespace

std::string Compilation::text() {
  std::string out;
  llvm::raw_string_ostream stream(out);
  module->print(stream, OpPrintingFlags().enableDebugInfo());
  return out + "\n";
}

Status Compilation::runPhase(Phase phase) {
  report(phaseNames[int(phase)]);
  if (phase == Phase::Import) {
    ImportOptions import{dtypeOf(options), isForCuda(options)};
    import.matrices = options.weightType;
    import.table = options.embeddingType;
    import.codes = options.codeType.value_or(ScalarType::I8);
    import.kv = options.kvType;
    import.top = options.top;
    module = importModel(context, config, import);
    if (!module)
      return failure("import");
  }
  passes::PhaseOptions phaseOptions;
  phaseOptions.family = isForCuda(options) ? "cuda" : "host";
  phaseOptions.fusion = options.fusion;
  phaseOptions.kvSharing = options.kvSharing;
  phaseOptions.deterministic = options.deterministic;
  phaseOptions.maxContext = options.maxContext;
  phaseOptions.maxBatch = options.maxBatch;
  phaseOptions.maxChunk = options.maxChunk;
  phaseOptions.maxLogitRows = maxLogitRows(config, options);
  PassManager pm(&context);
  switch (phase) {
  case Phase::Import:
    passes::buildImportPhase(pm, phaseOptions);
    break;
  case Phase::Optimize:
    passes::buildOptimizePhase(pm, phaseOptions);
    break;
  case Phase::Lower:
    passes::buildLowerPhase(pm, phaseOptions);
    break;
  default:
    passes::buildMemoryPhase(pm, phaseOptions);
    break;
  }
  if (mlir::failed(pm.run(*module)))
    return failure("phase " + std::string(phaseNames[int(phase)]));
  if (!options.dumpDir.empty())
    return writeFileAtomically(options.dumpDir + "/" + phaseNames[int(phase)] + ".mlir", text());
  return {};
}

Status Compilation::runTo(Phase last) {
  for (Phase phase : {Phase::Import, Phase::Optimize, Phase::Lower, Phase::Memory}) {
    if (phase > last)
      break;
    if (Status status = runPhase(phase); !status)
      return status;
  }
  return {};
}

Expected<Program> Compilation::program() {
  Program program;
  program.config = config;
  program.limits = {options.maxContext, options.maxBatch, options.maxChunk,
                    maxLogitRows(config, options)};
  auto numerics = (*module)->getAttrOfType<ir::NumericsAttr>("gemma.numerics");
  llvm::raw_string_ostream(program.numerics) << numerics;
  program.weightType = options.weightType.value_or(dtypeOf(options));
  program.cacheType = options.kvType.value_or(dtypeOf(options));
  program.activationType = options.dtype == ScalarType::F64 ? ScalarType::F64
                           : isForCuda(options)             ? ScalarType::BF16
                                                            : ScalarType::F32;
  program.fused = options.fusion;
  if (Status status = codegen::buildProgram(*module, program); !status)
    return status.error();
  return program;
}

Expected<std::vector<KernelBinary>> Compilation::objects() {
  if (isForCuda(options))
    return compileDeviceKernels(*module, options.targets, options.dumpDir,
                                [this](const std::string &target) { report(target); });
  std::vector<codegen::HostIsa> isas = wantedIsas(options);
  codegen::CodegenOptions codegenOptions;
  codegenOptions.dumpDir = options.dumpDir;
  codegenOptions.started = [this](const codegen::HostIsa &isa) { report("code for " + isa.name); };
  // Of the threads that the process may use.
  context.enableMultithreading();
  Expected<std::vector<codegen::HostObject>> made =
      codegen::compileHostKernels(*module, isas, codegenOptions);
  context.disableMultithreading();
  if (!made)
    return made.error();
  std::vector<KernelBinary> objects;
  objects.reserve(isas.size());
  for (size_t i = 0; i < isas.size(); ++i)
    objects.push_back(
        {isas[i].name, ObjectKind::Host, "", isas[i].needs, std::move((*made)[i].bytes)});
  return objects;
}

Expected<std::vector<TargetReport>> Compilation::report() {
  return reportDevices(*module, options.targets, options.dumpDir, options.maxContext,
                       options.maxChunk);
}

/// A compilation that has run up to and including `last`.
static Expected<std::unique_ptr<Compilation>> compileTo(Phase last, const ModelConfig &config,
                                                        const CompileOptions &options) {
  Expected<CompileOptions> resolved = resolveOptions(options, config);
  if (!resolved)
    return resolved.error();
  auto compilation = std::make_unique<Compilation>(config, *resolved);
  if (Status status = compilation->runTo(last); !status)
    return status.error();
  return compilation;
}

Expected<std::string> compileToText(const ModelConfig &config, const CompileOptions &options,
                                    Phase last) {
  Expected<std::unique_ptr<Compilation>> compilation = compileTo(last, config, options);
  if (!compilation)
    return compilation.error();
  return (*compilation)->text();
}

Expected<Program> planModel(const ModelConfig &config, const CompileOptions &options) {
  Expected<std::unique_ptr<Compilation>> compilation = compileTo(Phase::Memory, config, options);
  if (!compilation)
    return compilation.error();
  return (*compilation)->program();
}

Expected<ModelReport> reportModel(const ModelConfig &config, const CompileOptions &options) {
  Expected<std::unique_ptr<Compilation>> compilation = compileTo(Phase::Memory, config, options);
  if (!compilation)
    return compilation.error();
  Expected<std::vector<TargetReport>> reports = (*compilation)->report();
  if (!reports)
    return reports.error();
  return ModelReport{reportText(*reports), reportJson(*reports).dump(1) + "\n"};
}

/// A name for people that depends on the model alone, not on where its files lie.
static std::string describe(const ModelConfig &config) {
  return "gemma4, " + std::to_string(config.layers()) + " layers, hidden " +
         std::to_string(config.hidden) + ", " + std::to_string(parameterCount(config)) +
         " parameters";
}

Expected<Artifact> compileModel(const ModelConfig &config, const CompileOptions &options) {
  Expected<std::unique_ptr<Compilation>> compilation = compileTo(Phase::Memory, config, options);
  if (!compilation)
    return compilation.error();
  Expected<Program> program = (*compilation)->program();
  if (!program)
    return program.error();
  Expected<std::vector<KernelBinary>> objects = (*compilation)->objects();
  if (!objects)
    return objects.error();
  Artifact artifact;
  artifact.program = std::move(*program);
  artifact.objects = std::move(*objects);
  if (isForCuda(options))
    artifact.requiredFeatures = {"cuda"};
  if (options.top > 0)
    artifact.requiredFeatures.push_back("top");
  artifact.compilerVersion = GEMMA_VERSION;
  artifact.modelName = describe(config);
  return artifact;
}

/// The bytes of an optional file of the checkpoint.
static Expected<std::optional<std::string>> optionalFile(const std::filesystem::path &path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return std::optional<std::string>();
  Expected<std::string> bytes = readWholeFile(path, 256ull << 20);
  if (!bytes)
    return bytes.error();
  return std::optional<std::string>(std::move(*bytes));
}

Expected<Artifact> compileCheckpoint(const Checkpoint &checkpoint, const CompileOptions &options) {
  Expected<Artifact> artifact = compileModel(checkpoint.config(), options);
  if (!artifact)
    return artifact;
  Expected<std::optional<std::string>> tokenizer =
      optionalFile(checkpoint.folder() / "tokenizer.json");
  if (!tokenizer)
    return tokenizer.error();
  Expected<std::optional<std::string>> tokenizerConfig =
      optionalFile(checkpoint.folder() / "tokenizer_config.json");
  if (!tokenizerConfig)
    return tokenizerConfig.error();
  artifact->tokenizer = std::move(*tokenizer);
  artifact->tokenizerConfig = std::move(*tokenizerConfig);
  artifact->generation = checkpoint.generation();
  artifact->eosIds = checkpoint.eosIds();
  if (Status status = recordCheckpoint(*artifact, checkpoint, /*content=*/true); !status)
    return status.error();
  return artifact;
}

} // namespace gemma::compiler
