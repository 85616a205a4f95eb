#include "tools/dialects/Register.h"

#include "dialect/gemma/Gemma.h"
#include "dialect/kernel/Kernel.h"
#include "dialect/program/Program.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"

void gemma::registerDialects(mlir::DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<ir::GemmaDialect, kernel::KernelDialect, program::ProgramDialect>();
}
