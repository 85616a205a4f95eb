// What a kernel.rows' body says about its rows, whatever computes them.
#pragma once

#include "dialect/kernel/Kernel.h"

namespace gemma::codegen {

/// The type that a row of the body is computed in: 16-bit rows can only be copied, which is exact
/// in f32.
mlir::Type computeType(mlir::Type type);

/// Elements of a row.
int64_t rowLength(mlir::Value row);

/// Calls `body(lo, hi)` for each range of elements in which every one of `rows`, all of the same
/// length, has one source: where rows are put together from slices, the range is cut at the seams.
void forSegments(kernel::RowsOp op, llvm::ArrayRef<mlir::Value> rows,
                 llvm::function_ref<void(int64_t, int64_t)> body);

/// Whether element e of every result needs no other element of an input than e: nothing is sliced,
/// and all results have the same length. (Reductions are computed before anything is stored.)
bool isElementwise(kernel::RowsOp op);

} // namespace gemma::codegen
