// gemma-opt: runs passes and pipelines on .mlir files.
#include "codegen/cpu/Passes.h"
#include "dialect/gemma/Gemma.h"
#include "dialect/kernel/Kernel.h"
#include "dialect/program/Program.h"
#include "import/ImportPass.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::registerAllPasses();
  gemma::registerImportPass();
  gemma::codegen::registerHostCodegenPasses();
  registry.insert<gemma::ir::GemmaDialect, gemma::kernel::KernelDialect,
                  gemma::program::ProgramDialect>();
  gemma::passes::registerGemmaPasses();
  gemma::passes::registerPipelines();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "passes and pipelines of the Gemma compiler\n", registry));
}
