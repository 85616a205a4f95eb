// What the verifiers of several core ops ask.
#pragma once

#include "dialect/kernel/Kernel.h"

namespace gemma::kernel {

/// True for a memref of this rank whose elements are floats and whose sizes but the first are
/// static and positive.
bool isRowsOfFloats(mlir::Type type, int64_t rank);

bool isAccumulator(mlir::Type type);

/// Whether a kernel that shares work between blocks has the memory for it, and no other kernel:
/// f32 partial results of this shape, and a row of tickets.
llvm::LogicalResult verifyWorkspace(mlir::Operation *op, mlir::Value partials, mlir::Value tickets,
                                    bool shares, llvm::ArrayRef<int64_t> shape,
                                    int64_t leastTickets);

/// Elementwise maths and constants, and the terminator.
bool isElementwise(mlir::Operation &op);

} // namespace gemma::kernel
