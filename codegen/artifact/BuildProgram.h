// The program dialect becomes the Program that an artifact holds, one to one.
#pragma once

#include "runtime/abi/Program.h"
#include "runtime/support/Status.h"

#include "mlir/IR/BuiltinOps.h"

namespace gemma::codegen {

/// Fills everything of `program` that the module says: weights, caches, tables, kernels, outputs
/// and variants. The caller has set configuration, limits and types. An error is our own fault: the
/// module did not pass the memory phase.
Status buildProgram(mlir::ModuleOp module, Program &program);

} // namespace gemma::codegen
