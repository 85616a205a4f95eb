// The one list of dialects that .mlir files of this project may use: gemma-opt and gemma-lsp-server
// read the same language.
#pragma once

#include "mlir/IR/DialectRegistry.h"

namespace gemma {

/// Adds MLIR's own dialects with their extensions, and gemma, kernel and program.
void registerDialects(mlir::DialectRegistry &registry);

} // namespace gemma
