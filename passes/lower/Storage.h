// Where weights and tables lie, shared by the passes of the lower phase.
#pragma once

#include "dialect/program/Program.h"

#include "mlir/IR/BuiltinOps.h"

namespace gemma::passes {

/// The memref that kernels see of a weight: [N, K] row-major, or panels [P, K, 16] or
/// [P, ceil(K/2), 16, 2].
mlir::MemRefType packedType(mlir::RankedTensorType logical, program::LayoutAttr layout);

/// The module's table of these angles, or null.
program::TableOp findTable(mlir::ModuleOp module, double theta, int64_t denom, int64_t active);

} // namespace gemma::passes
