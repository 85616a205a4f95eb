// gemma-verify: what a model is, and whether compiled programs compute it.
#include "import/Import.h"
#include "tools/driver/Cli.h"
#include "tools/verify/ModelSource.h"
#include "tools/verify/SpecSheet.h"

#include "mlir/IR/MLIRContext.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

using namespace gemma;

namespace {

struct Options {
  std::string model;
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

std::function<Status()> declare(CLI::App &app) {
  auto options = std::make_shared<Options>();
  CLI::App *spec =
      app.add_subcommand("spec", "print nodes, tensors, domains, parameters and costs");
  spec->add_option("MODEL", options->model,
                   "model key (google/gemma-4-12B), config.json or checkpoint folder")
      ->required();
  spec->add_flag("--json", options->json, "as JSON");
  app.require_subcommand(1);
  app.footer("Examples:\n"
             "  gemma-verify spec google/gemma-4-12B\n"
             "Exit codes: 0 ok, 1 bad input or a check that fails, 2 usage, 3 internal.");
  return [options] { return runSpec(*options); };
}

} // namespace

int main(int argc, char **argv) {
  return driver::runTool("gemma-verify",
                         "Prints what a model is and checks that compiled programs compute it.",
                         declare, argc, argv);
}
