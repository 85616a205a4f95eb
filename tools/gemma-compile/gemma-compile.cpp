// gemma-compile: a checkpoint or a configuration becomes one artifact.
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/ConfigReader.h"
#include "runtime/device/WorkerPool.h"
#include "runtime/engine/Artifact.h"
#include "runtime/engine/Inspect.h"
#include "runtime/engine/MemoryPlan.h"
#include "runtime/engine/Model.h"
#include "runtime/support/File.h"
#include "runtime/weights/PackedWeights.h"
#include "runtime/weights/SyntheticTensors.h"
#include "tools/compiler/Compiler.h"
#include "tools/driver/Cli.h"
#include "tools/driver/Interrupt.h"
#include "tools/driver/PackingProgress.h"
#include "tools/driver/TypeFlags.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <unistd.h>

using namespace gemma;
using namespace gemma::compiler;
namespace fs = std::filesystem;

namespace {

struct CommandLine {
  std::string input;
  std::string output;
  std::string dtype;
  std::string weightType, embeddingType, activations, kvType;
  std::string fusion = "on";
  std::string kvSharing; ///< empty: as fusion
  std::string stopAfter;
  CompileOptions options;
  bool plan = false;
  std::string report; ///< where to; "-": standard output
  std::string inspect;
  bool json = false;
  bool packWeights = false;
  std::optional<int64_t> syntheticSeed;
  bool quiet = false;
};

/// What is compiled: an open checkpoint, or a configuration alone.
struct Source {
  ModelConfig config;
  std::vector<int64_t> eosIds;
  std::optional<Checkpoint> checkpoint;
};

Expected<Source> openSource(const std::string &input) {
  std::error_code error;
  if (!fs::exists(input, error))
    return badInput(input + ": no such file or folder");
  if (!fs::is_directory(input, error)) {
    Problems problems;
    ConfigFile file = readConfigFile(input, problems);
    if (!file.model)
      return problems.error();
    return Source{std::move(*file.model), std::move(file.eosIds), std::nullopt};
  }
  Expected<Checkpoint> checkpoint = Checkpoint::open(input);
  if (!checkpoint)
    return checkpoint.error();
  ModelConfig config = checkpoint->config();
  return Source{std::move(config), checkpoint->eosIds(), std::move(*checkpoint)};
}

std::string megabytes(uint64_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f MiB", double(bytes) / (1 << 20));
  return text;
}

std::string grouped(uint64_t value) {
  std::string digits = std::to_string(value);
  for (int64_t at = int64_t(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(at, ",");
  return digits;
}

Expected<MemoryPlan> planOf(const Program &program) {
  MemoryRequest request;
  request.threads = WorkerPool::availableThreads(); // as gemma-run
  return planMemory(program, request);
}

Status writeText(const std::string &output, const std::string &text) {
  if (!output.empty())
    return writeFileAtomically(output, text);
  std::cout << text << std::flush;
  return std::cout ? Status() : Status(badInput("standard output: cannot be written"));
}

/// Whether every number of `from` is one of `to`.
bool isExact(ScalarType from, ScalarType to) {
  if (from == to || to == ScalarType::F64)
    return true;
  return to == ScalarType::F32 && from != ScalarType::F64;
}

/// How many of a checkpoint's tensors lose digits in the type that is computed with.
size_t roundedTensors(const Checkpoint &checkpoint, ScalarType type) {
  return size_t(
      std::count_if(checkpoint.tensors().begin(), checkpoint.tensors().end(),
                    [&](const auto &entry) { return !isExact(entry.second.type, type); }));
}

/// "3 instruction sets", or the CUDA targets.
std::string codeFor(const Artifact &artifact, const CommandLine &line) {
  if (artifact.program.family == DeviceFamily::Host)
    return std::to_string(artifact.objects.size()) + " instruction sets";
  std::string names;
  for (const std::string &target : line.options.targets)
    names += (names.empty() ? "" : ", ") + target;
  return names;
}

/// How weights are stored, as the options name it: "bf16", "int4, embeddings int8".
std::string weightTypes(const Program &program) {
  std::string text = driver::flagOf(program.weightType);
  for (const WeightRecipe &weight : program.weights)
    if (weight.sources.front() == "embed_tokens.weight" && weight.storage != program.weightType)
      text += ", embeddings " + driver::flagOf(weight.storage);
  return text;
}

void printSummary(const Artifact &artifact, const MemoryPlan &plan, const CommandLine &line,
                  double seconds) {
  uint64_t code = 0;
  for (const KernelBinary &object : artifact.objects)
    code += object.bytes.size();
  std::cerr << line.output << "\n"
            << "  parameters   " << grouped(parameterCount(artifact.program.config)) << "\n"
            << "  weights      " << megabytes(plan.weights) << " (" << weightTypes(artifact.program)
            << ")\n"
            << "  KV cache     " << megabytes(plan.slidingCache + plan.globalCache) << " ("
            << plan.batch << " x " << plan.context << " positions, "
            << driver::flagOf(artifact.program.cacheType) << ")\n"
            << "  activations  " << megabytes(plan.activations + plan.scratch) << "\n"
            << "  kernels      " << artifact.program.kernels.size() << " for "
            << codeFor(artifact, line) << ", " << megabytes(code) << "\n"
            << "  seconds      " << seconds << "\n";
}

/// Refuses to write over a file that is read: the artifact that is looked at, the configuration, or
/// a file of the checkpoint.
Status checkNoInput(const CommandLine &line, const fs::path &output) {
  std::error_code error;
  std::vector<fs::path> read = {line.inspect, line.input};
  for (fs::directory_iterator file(line.input, error), end; !error && file != end;
       file.increment(error))
    read.push_back(file->path());
  for (const fs::path &file : read)
    if (!file.empty() && !fs::is_directory(file, error) && fs::equivalent(output, file, error))
      return badInput(output.string() + ": expected another file than those that are read, got " +
                      file.string());
  return {};
}

Status inspect(const CommandLine &line) {
  if (Status status = checkNoInput(line, line.output); !status)
    return status;
  Expected<Artifact> artifact = readArtifact(line.inspect);
  if (!artifact)
    return artifact.status();
  return writeText(line.output,
                   line.json ? inspectJson(*artifact).dump(1) + "\n" : inspectText(*artifact));
}

/// Packs the weights for OUT.weights, which is not there yet.
Expected<StagedFile> packWeights(const Artifact &artifact, const Source &source,
                                 const CommandLine &line) {
  std::unique_ptr<TensorSource> tensors;
  if (artifact.syntheticSeed)
    tensors = std::make_unique<SyntheticTensors>(source.config, *artifact.syntheticSeed);
  else if (source.checkpoint)
    tensors = std::make_unique<CheckpointTensors>(*source.checkpoint);
  else
    return internalError("weights to pack from nowhere");
  driver::PackingProgress shown(line.quiet);
  auto progress = [&](uint64_t done, uint64_t total) { shown.update(done, total); };
  return stagePackedWeights(artifact.program, *tensors, weightsOrigin(artifact), 0,
                            line.output + ".weights", progress);
}

/// Writes OUT and, if it is asked for, OUT.weights: both, or on an error or Ctrl-C what was there
/// before stays.
Status writeOutputs(const Artifact &artifact, const Source &source, const CommandLine &line) {
  if (!line.packWeights)
    return writeArtifact(line.output, artifact);
  Expected<StagedFile> weights = packWeights(artifact, source, line);
  if (!weights)
    return weights.status();
  Expected<StagedFile> staged = stageArtifact(line.output, artifact);
  if (!staged)
    return staged.status();
  driver::IgnoreInterrupts both;
  if (Status status = staged->commit(); !status)
    return status;
  if (Status status = weights->commit(); !status)
    return status;
  if (!line.quiet)
    std::cerr << "packed weights in " << line.output << ".weights\n";
  return {};
}

/// Looks early whether what is asked for can be written.
Status checkOutputs(const CommandLine &line) {
  if (line.output.empty() && (line.report.empty() || line.report == "-"))
    return {};
  std::vector<std::string> outputs = {line.output.empty() ? line.report : line.output};
  if (line.packWeights)
    outputs.push_back(line.output + ".weights");
  for (const std::string &output : outputs) {
    if (Status status = checkNoInput(line, output); !status)
      return status;
    if (Status status = checkWritable(output); !status)
      return status;
  }
  return {};
}

Status compile(CommandLine &line) {
  if (!line.inspect.empty())
    return line.input.empty() ? inspect(line) : usage("--inspect: expected no other input");
  if (line.input.empty())
    return usage("INPUT: expected a checkpoint folder or a config.json");
  if (line.json)
    return usage("--json: goes with --inspect");
  auto start = std::chrono::steady_clock::now();
  if (!line.dtype.empty()) {
    line.options.dtype = scalarTypeFromName(line.dtype);
    if (!line.options.dtype)
      return usage("--dtype: expected f64, f32 or bf16, got " + line.dtype);
  }
  line.options.weightType = driver::typeOfFlag(line.weightType);
  line.options.embeddingType = driver::typeOfFlag(line.embeddingType);
  line.options.codeType = driver::typeOfFlag(line.activations);
  line.options.kvType = driver::typeOfFlag(line.kvType);
  line.options.fusion = line.fusion == "on";
  line.options.kvSharing = line.kvSharing != "off";
  if (!line.options.fusion && line.kvSharing == "on")
    return usage(
        "--kv-sharing: expected off with --fusion off, whose nodes have keys of their own, "
        "got on");
  bool textOnly =
      line.plan || !line.report.empty() || (!line.stopAfter.empty() && line.stopAfter != "codegen");
  if (!textOnly && line.output.empty())
    return usage("-o: expected a name for the artifact");

  if (!line.report.empty() && (line.plan || !line.output.empty() || !line.stopAfter.empty()))
    return usage("--report: goes without -o, --plan and --stop-after");

  Expected<Source> source = openSource(line.input);
  if (!source)
    return source.error();
  if (line.syntheticSeed && source->checkpoint)
    return usage("--synthetic-weights: expected a config.json, got a checkpoint with weights");
  if (line.packWeights && !source->checkpoint && !line.syntheticSeed)
    return usage("--pack-weights: expected a checkpoint with weights or --synthetic-weights, got a "
                 "config.json alone");
  if (Status status = checkOutputs(line); !status)
    return status;
  if (!line.options.dumpDir.empty()) {
    std::error_code error;
    fs::create_directories(line.options.dumpDir, error);
    if (error)
      return badInput(line.options.dumpDir + ": " + error.message());
  }

  if (!line.report.empty()) {
    Expected<ModelReport> report = reportModel(source->config, line.options);
    if (!report)
      return report.error();
    return line.report == "-"               ? writeText("", report->text)
           : line.report.ends_with(".json") ? writeText(line.report, report->json)
                                            : writeText(line.report, report->text);
  }
  if (line.plan) {
    Expected<Program> program = planModel(source->config, line.options);
    if (!program)
      return program.error();
    Expected<MemoryPlan> plan = planOf(*program);
    if (!plan)
      return plan.error();
    if (Status status = writeText(line.output, plan->text()); !status || line.quiet)
      return status;
    std::cerr << fitText(*plan) << "\n";
    return {};
  }
  auto stop = std::find(std::begin(phaseNames), std::end(phaseNames), line.stopAfter);
  if (!line.stopAfter.empty() && line.stopAfter != "codegen") {
    Expected<std::string> text =
        compileToText(source->config, line.options, Phase(stop - std::begin(phaseNames)));
    return text ? writeText(line.output, *text) : text.status();
  }

  bool terminal = isatty(STDERR_FILENO);
  if (!line.quiet)
    line.options.progress = [&](const std::string &step, int64_t done, int64_t of) {
      std::cerr << (terminal ? "\r\x1b[K" : "") << "[" << done << "/" << of << "] " << step
                << (terminal ? "" : "\n") << std::flush;
    };
  const std::optional<Checkpoint> &checkpoint = source->checkpoint;
  Expected<Artifact> artifact = checkpoint ? compileCheckpoint(*checkpoint, line.options)
                                           : compileModel(source->config, line.options);
  if (!line.quiet && terminal)
    std::cerr << "\r\x1b[K";
  if (!artifact)
    return artifact.error();
  artifact->eosIds = source->eosIds;
  if (line.syntheticSeed)
    artifact->syntheticSeed = uint64_t(*line.syntheticSeed);
  Expected<MemoryPlan> plan = planOf(artifact->program);
  if (!plan)
    return plan.error();
  if (Status status = writeOutputs(*artifact, *source, line); !status)
    return status;
  if (!line.quiet) {
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (checkpoint && checkpoint->skippedTensors())
      std::cerr << "skipped " << checkpoint->skippedTensors()
                << " tensors that the text model does not use ("
                << megabytes(checkpoint->skippedBytes()) << ")\n";
    if (size_t rounded = checkpoint && isFloat(artifact->program.weightType)
                             ? roundedTensors(*checkpoint, artifact->program.weightType)
                             : 0)
      std::cerr << "rounding " << rounded << " tensors to " << name(artifact->program.weightType)
                << "\n";
    printSummary(*artifact, *plan, line, seconds);
  }
  return {};
}

std::function<Status()> declare(CLI::App &app) {
  auto line = std::make_shared<CommandLine>();
  CompileOptions &options = line->options;
  app.add_option("INPUT", line->input, "checkpoint folder or config.json");
  app.add_option("-o,--output", line->output, "the artifact (or the text of --plan, --stop-after)");
  app.add_option("--target", line->options.targets,
                 "host, or a list for CUDA: sm_80 (machine code, and PTX for newer devices), "
                 "ptx-sm_80 (PTX alone), emu-sm_80 (the emulated device)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--dtype", line->dtype,
                 "f64, f32 or bf16 (default: the checkpoint's; f16 -> f32)");
  app.add_option(
         "--weight-type", line->weightType,
         "how matrices are stored on the host: bf16, int8 or int4, the last two in groups of "
         "32 with f16 scales (default: the dtype)")
      ->check(CLI::IsMember({"f32", "bf16", "int8", "int4"}));
  app.add_option(
         "--embedding-type", line->embeddingType,
         "the same for the token table and the head (default: int8 with int4 weights, else as "
         "the weights)")
      ->check(CLI::IsMember({"f32", "bf16", "int8", "int4"}));
  app.add_option("--activations", line->activations,
                 "what products with int8 and int4 weights round activations to, per group of 32: "
                 "int8 or int16 (default: int8)")
      ->check(CLI::IsMember({"int8", "int16"}));
  app.add_option("--kv-type", line->kvType,
                 "how the host's caches store keys and values: bf16, f32, or int8 with a scale a "
                 "position and head (default: the dtype)")
      ->check(CLI::IsMember({"f32", "bf16", "int8"}));
  app.add_option("--max-context", options.maxContext,
                 "most positions of a sequence (default: 8192 or the model's, the smaller)")
      ->check(CLI::PositiveNumber);
  app.add_option("--max-batch", options.maxBatch, "most sequences of a step")
      ->capture_default_str();
  app.add_option("--max-chunk", options.maxChunk, "most tokens of a step")->capture_default_str();
  app.add_option("--top", options.top,
                 "how many of a row's largest logits a step can give in place of all; 0: none")
      ->capture_default_str();
  app.add_option("--fusion", line->fusion, "on, or off: every node its own launch")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  app.add_flag(
      "--deterministic", options.deterministic,
      "a token's result is the same bits alone, in a batch and in chunks; slower decode on "
      "CUDA devices, nothing new on the host, where it is always so");
  app.add_option("--kv-sharing", line->kvSharing,
                 "on, or off: keys are stored even where they follow from the values (default: on; "
                 "off with --fusion off)")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--isa", options.isas,
                 "list of baseline, avx2, avx512, avx512vnni: instruction sets to compile for "
                 "(default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--stop-after", line->stopAfter, "print the IR after this phase")
      ->check(CLI::IsMember({"import", "optimize", "lower", "memory", "codegen"}));
  app.add_option("--dump-dir", options.dumpDir,
                 "write PHASE.mlir and KERNEL.TARGET.{ll,s,o} into this folder");
  app.add_flag("--pack-weights", line->packWeights,
               "also write OUT.weights, which gemma-run maps instead of packing at every start");
  app.add_option("--synthetic-weights", line->syntheticSeed,
                 "weights made up from this seed, the same everywhere; goes with a config.json")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--plan", line->plan, "print what the model takes of memory, and compile nothing");
  app.add_option("--report", line->report,
                 "write what the kernels take of the CUDA targets and what steps should cost there "
                 "(a model) to this file, as JSON if its name ends in .json; -: standard output");
  app.add_option("--inspect", line->inspect, "print what this artifact holds");
  app.add_flag("--json", line->json, "--inspect as JSON");
  app.add_flag("--quiet", line->quiet, "no progress and no summary");
  app.footer(
      "Examples:\n"
      "  gemma-compile gemma-4-12B -o gemma-4-12B.gemma\n"
      "  gemma-compile gemma-4-12B/config.json -o any.gemma --dtype bf16\n"
      "  gemma-compile --plan gemma-4-31B --max-context 32768\n"
      "  gemma-compile gemma-4-12B --stop-after lower\n"
      "  gemma-compile --inspect gemma-4-12B.gemma --json\n"
      "GEMMA_PTXAS=PATH names the assembler for CUDA targets (default: that of the toolkit).\n"
      "Exit codes: 0 ok, 1 bad input, 2 usage, 3 internal, 130 after Ctrl-C.");
  return [line] { return compile(*line); };
}

} // namespace

int main(int argc, char **argv) {
  driver::endOnInterrupt();
  return driver::runTool(
      "gemma-compile", "Compiles a Gemma 4 checkpoint, or a config.json alone, into one artifact.",
      declare, argc, argv);
}
