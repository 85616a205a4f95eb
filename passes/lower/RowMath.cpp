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

Value RowMath::padded(Value row, int64_t width) {
  auto type = cast<RankedTensorType>(row.getType());
  int64_t length = type.getDimSize(0), whole = (length + width - 1) / width * width;
  if (whole == length)
    return row;
  return insert(row, splat(constant(type.getElementType(), 0.0), type.clone(whole)), 0);
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

std::pair<Value, Value> RowMath::quantise(Value row) {
  auto floats = cast<RankedTensorType>(row.getType());
  auto integers = floats.clone(b.getI32Type());
  Type f32 = b.getF32Type();
  Value largest = kernel::ReduceOp::create(b, loc, f32, kernel::Reduction::Max,
                                           math::AbsFOp::create(b, loc, row));
  // A NaN is not tiny.
  Value tiny =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, largest, constant(f32, 0x1p-100));
  auto unlessTiny = [&](Value value) {
    return Value(arith::SelectOp::create(b, loc, tiny, constant(f32, 0.0), value));
  };
  Value scale = unlessTiny(div(largest, constant(f32, 127.0)));
  Value inverse = unlessTiny(div(constant(f32, 127.0), largest));
  // Adding 1.5 · 2^23 rounds to an integer, in the low bits: every instruction set can do it, and
  // what is no number has some code, which its scale makes NaN again.
  constexpr double roundingTerm = 0x1.8p23;
  constexpr int32_t roundingBits = 0x4b400000; // of that number
  Value shifted = add(mul(row, splat(inverse, floats)), constant(floats, roundingTerm));
  Value bits = arith::BitcastOp::create(b, loc, integers, shifted);
  Value zero = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(integers, b.getI32IntegerAttr(roundingBits)));
  Value code = arith::SubIOp::create(b, loc, bits, zero);
  return {arith::TruncIOp::create(b, loc, floats.clone(b.getIntegerType(8)), code),
          splat(scale, RankedTensorType::get({1}, f32))};
}

Value RowMath::inverseRoot(Value row, double factor, double eps) {
  Value mean = scale(sum(mul(row, row)), factor);
  Value root = sqrt(add(mean, constant(mean.getType(), eps)));
  return splat(div(constant(root.getType(), 1.0), root), row.getType());
}

} // namespace gemma::passes
