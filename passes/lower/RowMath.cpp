#include "passes/lower/RowMath.h"

using namespace mlir;

namespace gemma::passes {

Value RowMath::slice(Value row, int64_t offset, int64_t count) {
  auto type = cast<RankedTensorType>(row.getType());
  if (offset == 0 && count == type.getDimSize(0))
    return row;
  return tensor::ExtractSliceOp::create(b, loc, RankedTensorType::get(count, type.getElementType()),
                                        row, ArrayRef<OpFoldResult>{b.getIndexAttr(offset)},
                                        ArrayRef<OpFoldResult>{b.getIndexAttr(count)},
                                        ArrayRef<OpFoldResult>{b.getIndexAttr(1)});
}

Value RowMath::insert(Value part, Value row, int64_t offset) {
  int64_t count = cast<RankedTensorType>(part.getType()).getDimSize(0);
  return tensor::InsertSliceOp::create(
      b, loc, part, row, ArrayRef<OpFoldResult>{b.getIndexAttr(offset)},
      ArrayRef<OpFoldResult>{b.getIndexAttr(count)}, ArrayRef<OpFoldResult>{b.getIndexAttr(1)});
}

Value RowMath::sigmoid(Value x) {
  Value one = constant(x.getType(), 1.0);
  return div(one, add(one, exp(neg(x))));
}

Value RowMath::geluTanh(Value x) {
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588; // √(2/π)
  Value cube = mul(mul(x, x), x);
  Value inner = scale(add(x, scale(cube, 0.044715)), kSqrtTwoOverPi);
  return mul(scale(x, 0.5), add(constant(x.getType(), 1.0), tanh(inner)));
}

Value RowMath::inverseRoot(Value row, double factor, double eps) {
  Value mean = scale(sum(mul(row, row)), factor);
  Value root = sqrt(add(mean, constant(mean.getType(), eps)));
  return splat(div(constant(root.getType(), 1.0), root), row.getType());
}

} // namespace gemma::passes
