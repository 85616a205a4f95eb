// Verifiers and folds of linear maps, gated activations and residuals.
#include "dialect/gemma/Verify.h"

using namespace mlir;
using namespace gemma::ir;

LogicalResult LinearOp::verify() {
  // linear_c1
  if (failed(verifySameRows(*this, getX().getType(), getY().getType())))
    return failure();
  // linear_c2
  return verifySameElement(*this, getX().getType(), getY().getType());
}

LogicalResult LinearOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // linear_c3
  return verifyWeight(*this, symbols, getWeightAttr(),
                      {columnsOf(getY().getType()), columnsOf(getX().getType())});
}

static LogicalResult verifyGated(Operation *op, Type x, Type y) {
  // gelu_mul_c1, silu_mul_c1, gelu_mul_c2, silu_mul_c2
  if (failed(verifySameRows(op, x, y)) || failed(verifySameElement(op, x, y)))
    return failure();
  // gelu_mul_c3, silu_mul_c3: divided, because a product could overflow
  if (columnsOf(x) % 2 != 0 || columnsOf(x) / 2 != columnsOf(y))
    return op->emitOpError() << "expected a result of half the " << columnsOf(x) << " columns, got "
                             << columnsOf(y);
  return success();
}

LogicalResult GeluMulOp::verify() { return verifyGated(*this, getX().getType(), getY().getType()); }
LogicalResult SiluMulOp::verify() { return verifyGated(*this, getX().getType(), getY().getType()); }

LogicalResult ResidualOp::verify() {
  // residual_c1
  return verifyFinite(*this, "r", getR());
}

LogicalResult ResidualOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // residual_c2
  return getLayerScalarAttr() ? verifyWeight(*this, symbols, getLayerScalarAttr(), 1) : success();
}

// Nothing is added, and s is 1.
OpFoldResult ResidualOp::fold(FoldAdaptor) {
  return getR().isZero() && !getLayerScalarAttr() ? getX() : OpFoldResult();
}
