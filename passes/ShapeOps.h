// Which operations only name parts of tensors.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace gemma::passes {

/// Slices, reshapes, and the index arithmetic of their sizes: they compute nothing and need no
/// launch.
inline bool isShapeOp(mlir::Operation *op) {
  return mlir::isa<mlir::tensor::TensorDialect>(op->getDialect()) ||
         mlir::isa<mlir::arith::ConstantIndexOp>(op);
}

} // namespace gemma::passes
