// gemma-lsp-server: completion, hover, go to definition and diagnostics for .mlir files in editors.
// docs/Editors.md says how to set it up.
#include "tools/dialects/Register.h"

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/LogicalResult.h"

#include <cstdlib>

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  gemma::registerDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry)) ? EXIT_FAILURE : EXIT_SUCCESS;
}
