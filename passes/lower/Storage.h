// Symbols that the passes of the lower phase look up.
#pragma once

#include "dialect/program/Program.h"

#include "mlir/IR/BuiltinOps.h"

namespace gemma::passes {

/// The module's table of these angles, or null.
program::TableOp findTable(mlir::ModuleOp module, double theta, int64_t denom, int64_t active);

} // namespace gemma::passes
