// Elementwise formulas on rows (tensor<N x float>) and on scalars, as arith and math ops.
#pragma once

#include "dialect/kernel/Kernel.h"

#include "mlir/IR/Builders.h"

namespace gemma::passes {

/// Builds formulas over values of one type: a row or a scalar. Constants are given in f64 and
/// rounded to the type.
class RowMath {
public:
  RowMath(mlir::OpBuilder &builder, mlir::Location loc) : b(builder), loc(loc) {}

  mlir::Value constant(mlir::Type type, double value) {
    if (auto row = mlir::dyn_cast<mlir::RankedTensorType>(type))
      return mlir::arith::ConstantOp::create(
          b, loc,
          mlir::DenseElementsAttr::get(row,
                                       b.getFloatAttr(row.getElementType(), value).getValue()));
    return mlir::arith::ConstantOp::create(b, loc, b.getFloatAttr(type, value));
  }
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return mlir::arith::AddFOp::create(b, loc, x, y);
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    return mlir::arith::SubFOp::create(b, loc, x, y);
  }
  mlir::Value mul(mlir::Value x, mlir::Value y) {
    return mlir::arith::MulFOp::create(b, loc, x, y);
  }
  mlir::Value div(mlir::Value x, mlir::Value y) {
    return mlir::arith::DivFOp::create(b, loc, x, y);
  }
  mlir::Value neg(mlir::Value x) { return mlir::arith::NegFOp::create(b, loc, x); }
  mlir::Value scale(mlir::Value x, double factor) {
    return factor == 1.0 ? x : mul(x, constant(x.getType(), factor));
  }
  mlir::Value exp(mlir::Value x) { return mlir::math::ExpOp::create(b, loc, x); }
  mlir::Value tanh(mlir::Value x) { return mlir::math::TanhOp::create(b, loc, x); }
  mlir::Value sqrt(mlir::Value x) { return mlir::math::SqrtOp::create(b, loc, x); }
  mlir::Value sum(mlir::Value row) {
    mlir::Type element = mlir::cast<mlir::RankedTensorType>(row.getType()).getElementType();
    return kernel::ReduceOp::create(b, loc, element, kernel::Reduction::Add, row);
  }
  mlir::Value splat(mlir::Value scalar, mlir::Type row) {
    return mlir::tensor::SplatOp::create(b, loc, mlir::cast<mlir::RankedTensorType>(row), scalar);
  }
  /// `count` elements of a row from `offset` on.
  mlir::Value slice(mlir::Value row, int64_t offset, int64_t count);
  /// `row` with zeros behind it, to a multiple of `width` elements.
  mlir::Value padded(mlir::Value row, int64_t width);
  /// `row` with `part` written over it from `offset` on.
  mlir::Value insert(mlir::Value part, mlir::Value row, int64_t offset);

  mlir::Value sigmoid(mlir::Value x);
  mlir::Value silu(mlir::Value x) { return mul(x, sigmoid(x)); }
  /// x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))), on the host within 4 u · |x|, u = 2^-24 in f32
  /// and 2^-53 in f64: below zero the sum cancels, so y itself may lose all its digits.
  mlir::Value geluTanh(mlir::Value x);
  /// A row of f32 as codes of i8 in [-127, 127], and one f32 as a row of one: x ≈ code · scale with
  /// scale = max |x| / 127, to within half a scale. Rows of magnitudes below 2^-100 are zeros; a
  /// row with a NaN or an infinity has a scale that is neither finite nor lost.
  std::pair<mlir::Value, mlir::Value> quantise(mlir::Value row);
  /// 1 / √(Σ x² · factor + eps), as a row.
  mlir::Value inverseRoot(mlir::Value row, double factor, double eps);

private:
  mlir::OpBuilder &b;
  mlir::Location loc;
};

} // namespace gemma::passes
