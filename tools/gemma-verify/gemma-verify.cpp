// gemma-verify: what a model is, and whether compiled programs compute it.
#include "import/Import.h"
#include "runtime/engine/Artifact.h"
#include "tools/driver/Cli.h"
#include "tools/driver/TypeFlags.h"
#include "tools/verify/ModelCase.h"
#include "tools/verify/ModelSource.h"
#include "tools/verify/NodeCase.h"
#include "tools/verify/SpecKey.h"
#include "tools/verify/SpecSheet.h"
#include "tools/verify/VerifyModel.h"

#include "mlir/IR/MLIRContext.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>
#include <unistd.h>

using namespace gemma;

namespace {

struct Options {
  std::string model;
  std::string node;
  std::string dtype = "f64";
  std::string weightType, kvType;
  std::string device = "host";
  uint64_t seed = 1;
  std::function<bool()> dtypeGiven;
  verify::CaseOptions caseOptions;
  std::string output, caseFile, gotFile, checkDtype;
  bool json = false;
};

Status runSpec(const Options &options) {
  Expected<verify::ModelSource> source = verify::findModel(options.model);
  if (!source)
    return source.status();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      importModel(context, source->config, {ScalarType::BF16});
  if (!module)
    return internalError(source->name + ": import failed");
  verify::SpecSheet sheet = verify::deriveSpec(*module, source->name, source->config.maxPositions);
  std::cout << (options.json ? verify::specToJson(sheet).dump(2) + "\n" : verify::printSpec(sheet));
  return {};
}

/// f64, f32 or bf16 of --dtype.
Expected<ScalarType> parseDtype(const std::string &text) {
  std::optional<ScalarType> type = scalarTypeFromName(text);
  if (type == ScalarType::F64 || type == ScalarType::F32 || type == ScalarType::BF16)
    return *type;
  return usage("--dtype: expected f64, f32 or bf16, got " + text);
}

/// Prints a report; an error if something in it does not hold.
Status show(const verify::VerifyReport &report, const Options &options) {
  std::cout << (options.json ? verify::reportToJson(report).dump(2) + "\n"
                             : verify::printReport(report))
            << std::flush;
  return report.holds() ? Status() : badInput(options.model + ": a check does not hold");
}

Status runVerify(const Options &options) {
  verify::VerifyOptions verifyOptions;
  if (options.device != "host")
    return usage("--device: expected host, got " + options.device);
  Expected<ScalarType> dtype = parseDtype(options.dtype);
  if (!dtype)
    return dtype.status();
  verifyOptions.dtype = *dtype;
  verifyOptions.seed = options.seed;
  if (isatty(STDERR_FILENO))
    verifyOptions.progress = [](const std::string &what) { std::cerr << what << "\n"; };

  bool artifact = looksLikeArtifact(options.model);
  for (auto [flag, given] : {std::pair("--dtype", options.dtypeGiven()),
                             {"--weight-type", !options.weightType.empty()},
                             {"--kv-type", !options.kvType.empty()}})
    if (artifact && given)
      return usage(std::string(flag) + ": an artifact has its own");
  if (!options.weightType.empty()) {
    if (*dtype == ScalarType::F64)
      return usage("--weight-type: expected --dtype f32 or bf16 with it, got f64");
    verifyOptions.weightType = driver::typeOfFlag(options.weightType);
  }
  if (!options.kvType.empty())
    verifyOptions.kvType = driver::typeOfFlag(options.kvType);
  verify::ModelSource source;
  if (!artifact) {
    Expected<verify::ModelSource> found = verify::findModel(options.model);
    if (!found)
      return found.status();
    source = *std::move(found);
    verifyOptions.nodes = source.nodes;
  }
  // A full key's model was named already.
  if (!options.node.empty()) {
    verify::SpecKey key = verify::splitSpecKey(options.node);
    if (!key.nodes.empty() && !source.key.empty() && key.model != source.key)
      return badInput("--node: expected a node of " + source.key + ", got " + options.node);
    verifyOptions.nodes = key.nodes.empty() ? options.node : key.nodes;
  }
  Expected<verify::VerifyReport> report = artifact
                                              ? verify::verifyArtifact(options.model, verifyOptions)
                                              : verify::verifyModel(source, verifyOptions);
  if (!report)
    return report.status();
  return show(*report, options);
}

Status runCase(const Options &options) {
  Expected<verify::ModelSource> source = verify::findModel(options.model);
  if (!source)
    return source.status();
  std::string nodes = options.node.empty() ? source->nodes : options.node;
  if (nodes.empty()) {
    Status written = verify::writeModelCase(*source, options.caseOptions, options.output);
    if (written)
      std::cout << options.output << ": " << source->name
                << " at reduced sizes, with reference.safetensors\n";
    return written;
  }
  Expected<std::string> key =
      verify::writeNodeCase(*source, nodes, options.caseOptions, options.output);
  if (key)
    std::cout << options.output << ": " << *key << "\n";
  return key.status();
}

Status runCheck(const Options &options) {
  std::optional<ScalarType> dtype;
  if (!options.checkDtype.empty()) {
    Expected<ScalarType> parsed = parseDtype(options.checkDtype);
    if (!parsed)
      return parsed.status();
    dtype = *parsed;
  }
  Expected<verify::VerifyReport> report =
      verify::checkNodeCase(options.model, options.caseFile, options.gotFile, dtype);
  if (!report)
    return report.status();
  return show(*report, options);
}

std::function<Status()> declare(CLI::App &app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model,
                 "model key (google/gemma-4-12B, with :NODES if only some are meant), config.json, "
                 "checkpoint folder, or artifact");
  app.add_option("--node", options->node,
                 "only these nodes: layers[*].attn.core, layers[3], layers[0-5].mlp, lm_head");
  auto *dtype =
      app.add_option("--dtype", options->dtype, "f64, f32 or bf16; an artifact has its own")
          ->capture_default_str();
  app.add_option("--weight-type", options->weightType,
                 "int8 or int4: how matrices are stored (default: as the dtype)")
      ->check(CLI::IsMember({"int8", "int4"}));
  app.add_option("--kv-type", options->kvType,
                 "f32, bf16 or int8: how caches store keys and values (default: as the dtype)")
      ->check(CLI::IsMember({"f32", "bf16", "int8"}));
  options->dtypeGiven = [dtype] { return dtype->count() > 0; };
  app.add_option("--device", options->device, "where to run")->capture_default_str();
  app.add_option("--seed", options->seed, "of the first weights; the second ones have the next")
      ->capture_default_str();
  app.add_flag("--json", options->json, "as JSON");
  CLI::App *spec =
      app.add_subcommand("spec", "print nodes, tensors, domains, parameters and costs");
  spec->add_option("MODEL", options->model,
                   "model key (google/gemma-4-12B), config.json or checkpoint folder")
      ->required();
  spec->add_flag("--json", options->json, "as JSON");
  CLI::App *make = app.add_subcommand(
      "case", "write inputs and f64 outputs of a node, or a small model with its outputs");
  make->add_option("KEY", options->model,
                   "google/gemma-4-12B:layers[*].attn.core, or a model alone")
      ->required();
  make->add_option("--node", options->node, "the node, where KEY is a file or a folder");
  make->add_option("--tokens", options->caseOptions.tokens,
                   "tokens; of attention: sequences with one query; of a model: one more prompt")
      ->capture_default_str();
  make->add_option("--seq", options->caseOptions.seq, "cached positions, or positions of a rope")
      ->capture_default_str();
  make->add_option("--seed", options->caseOptions.seed, "of inputs and weights")
      ->capture_default_str();
  make->add_option("-o,--output", options->output, "F.safetensors, or the model's folder")
      ->required();
  CLI::App *check = app.add_subcommand("check", "judge outputs that another program computed");
  check->add_option("KEY", options->model, "the node")->required();
  check->add_option("CASE", options->caseFile, "what `case` wrote")->required();
  check->add_option("GOT", options->gotFile, "safetensors file with the outputs")->required();
  check->add_option("--dtype", options->checkDtype,
                    "whose bound holds: f64, f32 or bf16; default: each output's own type");
  check->add_flag("--json", options->json, "as JSON");
  app.require_subcommand(0, 1);
  app.footer(
      "Examples:\n"
      "  gemma-verify google/gemma-4-12B\n"
      "  gemma-verify google/gemma-4-31B --dtype bf16 --node 'layers[*].attn.core'\n"
      "  gemma-verify model.gemma\n"
      "  gemma-verify spec google/gemma-4-12B\n"
      "  gemma-verify case 'google/gemma-4-12B:layers[*].attn.core' --seq 100 -o core.safetensors\n"
      "  gemma-verify check 'layers[*].attn.core' core.safetensors mine.safetensors\n"
      "Exit codes: 0 ok, 1 bad input or a check that fails, 2 usage, 3 internal.");
  return [options, spec, make, check]() -> Status {
    if (spec->parsed())
      return runSpec(*options);
    if (make->parsed())
      return runCase(*options);
    if (check->parsed())
      return runCheck(*options);
    if (options->model.empty())
      return usage("MODEL is missing; try --help");
    return runVerify(*options);
  };
}

} // namespace

int main(int argc, char **argv) {
  return driver::runTool("gemma-verify",
                         "Prints what a model is and checks that compiled programs compute it.",
                         declare, argc, argv);
}
