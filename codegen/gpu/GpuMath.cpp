// Element-wise maths on a GPU without a library: exp and tanh from ex2.approx, which has a relative
// error of 2^-22; everything else IEEE operations.
#include "codegen/gpu/GpuBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace gemma::codegen::cuda {

Value GpuBuilder::intrinsic(StringRef name, ValueRange operands, bool approximate) {
  Type type = operands.front().getType();
  auto vector = dyn_cast<VectorType>(type);
  std::string overload = name.str();
  if (vector)
    overload += llvm::formatv(".v{0}{1}", vector.getDimSize(0), vector.getElementType()).str();
  else
    overload += llvm::formatv(".{0}", type).str();
  auto call = LLVM::CallIntrinsicOp::create(*this, type, getStringAttr(overload), operands);
  if (approximate)
    call.setFastmathFlags(LLVM::FastmathFlags::afn);
  return call.getResult(0);
}

Value GpuBuilder::exp(Value x) {
  return exp2(arith::MulFOp::create(*this, x, constant(x.getType(), 1.4426950408889634)));
}

/// (E − 1)/(E + 1) with E = e^(2|x|); near 0, where that cancels, the Taylor polynomial.
Value GpuBuilder::tanh(Value x) {
  Type type = x.getType();
  auto number = [&](double value) { return constant(type, value); };
  auto fma = [&](Value a, Value b, Value c) { return intrinsic("llvm.fma", {a, b, c}); };
  Value magnitude = intrinsic("llvm.fabs", x);
  // Beyond 10 the result is 1 in f32, and E would become infinite further on. NaN stays NaN.
  Value large = arith::CmpFOp::create(*this, arith::CmpFPredicate::OGT, magnitude, number(10.0));
  Value bounded = arith::SelectOp::create(*this, large, number(10.0), magnitude);
  Value e = exp2(arith::MulFOp::create(*this, bounded, number(2.8853900817779268)));
  Value quotient = arith::DivFOp::create(*this, arith::SubFOp::create(*this, e, number(1.0)),
                                         arith::AddFOp::create(*this, e, number(1.0)),
                                         arith::FastMathFlags::afn);
  Value z = arith::MulFOp::create(*this, magnitude, magnitude);
  Value p = number(62.0 / 2835);
  for (double c : {-17.0 / 315, 2.0 / 15, -1.0 / 3})
    p = fma(p, z, number(c));
  Value small = fma(arith::MulFOp::create(*this, magnitude, z), p, magnitude);
  Value isSmall = arith::CmpFOp::create(*this, arith::CmpFPredicate::OLT, magnitude, number(0.25));
  Value result = arith::SelectOp::create(*this, isSmall, small, quotient);
  return intrinsic("llvm.copysign", {result, x});
}

Value GpuBuilder::elementwise(Operation *op, ValueRange operands, int64_t width) {
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  Type result = width ? Type(vec(element, width)) : element;
  auto zero = [&]() -> Value {
    return arith::ConstantOp::create(*this, cast<TypedAttr>(getZeroAttr(result)));
  };
  if (auto constantOp = dyn_cast<arith::ConstantOp>(op)) {
    Attribute value = constantOp.getValue();
    if (auto dense = dyn_cast<DenseElementsAttr>(value)) {
      if (!dense.isSplat()) {
        fail(op, "expected a constant with one value for all elements");
        return zero();
      }
      value = dense.getSplatValue<Attribute>();
    }
    if (width)
      value = DenseElementsAttr::get(cast<VectorType>(result), value);
    return arith::ConstantOp::create(*this, cast<TypedAttr>(value));
  }
  for (Type type : op->getOperandTypes())
    if (auto number = dyn_cast<FloatType>(getElementTypeOrSelf(type)); number && !number.isF32()) {
      fail(op, llvm::formatv("computes with {0}; GPU kernels compute with f32", number).str());
      return zero();
    }
  if (isa<math::ExpOp>(op))
    return exp(operands[0]);
  if (isa<math::TanhOp>(op))
    return tanh(operands[0]);
  if (isa<math::SqrtOp>(op))
    return intrinsic("llvm.sqrt", operands);
  if (isa<math::FmaOp>(op))
    return intrinsic("llvm.fma", operands);
  if (isa<math::AbsFOp>(op))
    return intrinsic("llvm.fabs", operands);
  if (isa<math::CopySignOp>(op))
    return intrinsic("llvm.copysign", operands);
  if (isa<math::RsqrtOp>(op))
    return arith::DivFOp::create(*this, constant(result, 1.0), intrinsic("llvm.sqrt", operands));
  if (op->getNumResults() != 1 || !isa<arith::ArithDialect>(op->getDialect()) ||
      !OpTrait::hasElementwiseMappableTraits(op)) {
    fail(op, "has no form on a GPU: not allowed in the body of a core op");
    return zero();
  }
  return create(getLoc(), op->getName().getIdentifier(), operands, result, op->getAttrs())
      ->getResult(0);
}

SmallVector<Value> GpuBuilder::inlineScalars(Block &block, ValueRange arguments) {
  llvm::DenseMap<Value, Value> done;
  for (auto [argument, value] : llvm::zip_equal(block.getArguments(), arguments))
    done[argument] = value;
  auto mapped = [&](ValueRange operands) {
    SmallVector<Value> result;
    for (Value operand : operands) {
      Value value = done.lookup(operand);
      result.push_back(value ? value : values.lookupOrDefault(operand));
    }
    return result;
  };
  for (Operation &op : block.without_terminator())
    done[op.getResult(0)] = elementwise(&op, mapped(op.getOperands()), /*width=*/0);
  return mapped(block.getTerminator()->getOperands());
}

} // namespace gemma::codegen::cuda
