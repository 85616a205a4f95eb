// The ops of upstream dialects that L1 and L2 use between nodes: slices, reshapes, sizes.
#pragma once

#include "reference/Values.h"
#include "runtime/support/Status.h"

#include "mlir/IR/Operation.h"

#include <span>
#include <vector>

namespace gemma::reference {

/// tensor.{extract_slice, expand_shape, collapse_shape, cast, dim} and arith.constant of an index;
/// an error for any other op.
Expected<std::vector<NodeValue>> evaluateTensorOp(mlir::Operation *op,
                                                  std::span<const NodeValue *const> operands);

} // namespace gemma::reference
