#include "codegen/cpu/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace gemma::codegen {
namespace {

/// Constants of one float format for e^x = 2^n · e^r, r = x − n·ln 2, |r| ≤ ln 2 / 2.
struct ExpFormat {
  unsigned mantissaBits;
  int64_t exponentBias;
  double magic;           ///< 1.5·2^mantissa: adding it rounds to an integer in the low bits
  double ln2High, ln2Low; ///< ln 2 with a high part short enough that n·ln2High is exact
  double lowest, highest; ///< beyond these e^x is 0 or infinite
  int degree;             ///< of the Taylor polynomial: its remainder is below an eighth of an ulp
};

constexpr ExpFormat f64Format = {52,     1023,  0x1.8p52, 0x1.62e42feep-1, 0x1.a39ef35793c76p-33,
                                 -746.0, 710.0, 13};
constexpr ExpFormat f32Format = {23,     127,  0x1.8p23, 0x1.62e4p-1, 0x1.7f7d1cf79abcap-20,
                                 -105.0, 89.0, 7};

class ExpEmitter {
public:
  ExpEmitter(KernelBuilder &b, Type type)
      : b(b), type(type), format(getElementTypeOrSelf(type).isF64() ? f64Format : f32Format) {
    Type bits = b.getIntegerType(getElementTypeOrSelf(type).getIntOrFloatBitWidth());
    auto vector = dyn_cast<VectorType>(type);
    integers = vector ? Type(vector.clone(bits)) : bits;
  }

  Value number(double value) { return b.constant(type, value); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }

  /// NaN stays NaN: the comparison with it is false.
  Value clamp(Value x, double lowest, double highest) {
    Value tooLow = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, number(lowest));
    x = arith::SelectOp::create(b, tooLow, number(lowest), x);
    Value tooHigh = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, x, number(highest));
    return arith::SelectOp::create(b, tooHigh, number(highest), x);
  }

  /// x rounded to an integer, as float; `shifted` has it in its low bits too.
  Value roundToInteger(Value x, double factor, Value &shifted) {
    shifted = b.mulAdd(x, number(factor), number(format.magic));
    return sub(shifted, number(format.magic));
  }

  /// 2^n for the integer in the low bits of `shifted`; n within the exponents of normal numbers.
  Value powerOfTwo(Value shifted) {
    Value bits = arith::BitcastOp::create(b, integers, shifted);
    Value biased = arith::AddIOp::create(b, bits, b.integer(integers, format.exponentBias));
    Value exponent = arith::ShLIOp::create(b, biased, b.integer(integers, format.mantissaBits));
    return arith::BitcastOp::create(b, type, exponent);
  }

  /// x − n·ln 2.
  Value remainder(Value x, Value n) {
    Value high = b.mulAdd(n, number(-format.ln2High), x);
    return b.mulAdd(n, number(-format.ln2Low), high);
  }

  /// e^r − 1 for small r: r + r²·(1/2 + r/6 + ...), so the leading term is exact.
  Value expm1OfRemainder(Value r) {
    double factorial = 1;
    for (int i = 2; i <= format.degree; ++i)
      factorial *= i;
    Value q = number(1.0 / factorial);
    for (int i = format.degree; i > 2; --i) {
      factorial /= i;
      q = b.mulAdd(q, r, number(1.0 / factorial));
    }
    return b.mulAdd(mul(r, r), q, r);
  }

  Value exp(Value x) {
    x = clamp(x, format.lowest, format.highest);
    Value shifted, shiftedHalf;
    Value n = roundToInteger(x, log2e, shifted);
    Value e = add(expm1OfRemainder(remainder(x, n)), number(1.0));
    // 2^n in two factors, so that results near the ends of the range, subnormal ones too, are
    // right.
    Value half = roundToInteger(n, 0.5, shiftedHalf);
    Value restShifted = add(sub(n, half), number(format.magic));
    return mul(mul(e, powerOfTwo(shiftedHalf)), powerOfTwo(restShifted));
  }

  /// One power of two is enough: results are normal numbers, or 0.
  Value expOfNegative(Value x) {
    double lowest = format.mantissaBits == 52 ? -708.0 : -87.0;
    Value tooLow = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, number(lowest));
    x = arith::SelectOp::create(b, tooLow, number(lowest), x);
    Value shifted;
    Value n = roundToInteger(x, log2e, shifted);
    Value e = add(expm1OfRemainder(remainder(x, n)), number(1.0));
    return arith::SelectOp::create(b, tooLow, number(0.0), mul(e, powerOfTwo(shifted)));
  }

  /// tanh |x| = E / (E + 2) with E = e^(2|x|) − 1 = 2^n·(e^r − 1) + (2^n − 1).
  Value tanh(Value x) {
    Value z = math::AbsFOp::create(b, x);
    z = clamp(add(z, z), 0.0, format.mantissaBits == 52 ? 44.0 : 20.0);
    Value shifted;
    Value n = roundToInteger(z, log2e, shifted);
    Value p = expm1OfRemainder(remainder(z, n));
    Value scale = powerOfTwo(shifted);
    Value e = b.mulAdd(p, scale, sub(scale, number(1.0)));
    Value result = arith::DivFOp::create(b, e, add(e, number(2.0)));
    return math::CopySignOp::create(b, result, x);
  }

private:
  static constexpr double log2e = 1.4426950408889634;
  KernelBuilder &b;
  Type type, integers;
  const ExpFormat &format;
};

} // namespace

Value emitExp(KernelBuilder &b, Value x) { return ExpEmitter(b, x.getType()).exp(x); }
Value emitExpOfNegative(KernelBuilder &b, Value x) {
  return ExpEmitter(b, x.getType()).expOfNegative(x);
}
Value emitTanh(KernelBuilder &b, Value x) { return ExpEmitter(b, x.getType()).tanh(x); }

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

Value emitHalfBitsToF32(KernelBuilder &b, Value bits, Type type) {
  auto integers = cast<VectorType>(bits.getType());
  auto floats = integers.clone(b.getF32Type());
  auto number = [&](int64_t value) { return b.integer(integers, value); };
  if (type.isBF16())
    return arith::BitcastOp::create(b, floats, arith::ShLIOp::create(b, bits, number(16)));
  // f16: move exponent and mantissa into place; a product with 2^112 corrects the exponent, for
  // subnormal numbers too. Infinities and NaN come out as 2^16 and more: give them all exponent
  // bits.
  Value magnitude =
      arith::ShLIOp::create(b, arith::AndIOp::create(b, bits, number(0x7fff)), number(13));
  Value scaled = arith::MulFOp::create(b, arith::BitcastOp::create(b, floats, magnitude),
                                       b.constant(floats, 0x1p112));
  Value special =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, scaled, b.constant(floats, 65536.0));
  Value scaledBits = arith::BitcastOp::create(b, integers, scaled);
  Value allOnes = arith::OrIOp::create(b, scaledBits, number(0x7f800000));
  scaledBits = arith::SelectOp::create(b, special, allOnes, scaledBits);
  Value sign = arith::ShLIOp::create(b, arith::AndIOp::create(b, bits, number(0x8000)), number(16));
  return arith::BitcastOp::create(b, floats, arith::OrIOp::create(b, scaledBits, sign));
}

Value emitWiden(KernelBuilder &b, Value stored, Type type, Type compute) {
  auto vector = cast<VectorType>(stored.getType());
  Value value = stored;
  if (isa<IntegerType>(type) && isa<FloatType>(compute)) {
    Value wide = arith::ExtSIOp::create(b, vector.clone(b.getI32Type()), stored);
    return arith::SIToFPOp::create(b, vector.clone(compute), wide);
  }
  if (type.getIntOrFloatBitWidth() == 16) {
    Value bits = arith::ExtUIOp::create(b, vector.clone(b.getI32Type()), stored);
    value = emitHalfBitsToF32(b, bits, type);
  }
  Type from = getElementTypeOrSelf(value.getType());
  if (from == compute)
    return value;
  if (from.getIntOrFloatBitWidth() > compute.getIntOrFloatBitWidth())
    return arith::TruncFOp::create(b, vector.clone(compute), value);
  return arith::ExtFOp::create(b, vector.clone(compute), value);
}

/// f32 bits to bf16 bits: add half of the dropped part, less one unless the kept part is odd.
static Value roundToBF16(KernelBuilder &b, Value value) {
  auto vector = cast<VectorType>(value.getType());
  auto integers = vector.clone(b.getI32Type());
  auto number = [&](int64_t n) { return b.integer(integers, n); };
  Value bits = arith::BitcastOp::create(b, integers, value);
  Value odd = arith::AndIOp::create(b, arith::ShRUIOp::create(b, bits, number(16)), number(1));
  Value bias = arith::AddIOp::create(b, odd, number(0x7fff));
  Value rounded = arith::ShRUIOp::create(b, arith::AddIOp::create(b, bits, bias), number(16));
  // Rounding could turn a NaN into an infinity: NaN stays a quiet NaN with its upper bits.
  Value quiet = arith::OrIOp::create(b, arith::ShRUIOp::create(b, bits, number(16)), number(0x40));
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
  Value result = arith::SelectOp::create(b, isNan, quiet, rounded);
  return arith::TruncIOp::create(b, vector.clone(b.getIntegerType(16)), result);
}

Value emitRound(KernelBuilder &b, Value value, Type type) {
  auto vector = cast<VectorType>(value.getType());
  Type from = vector.getElementType();
  if (from == type)
    return value;
  if (type.isBF16()) {
    // Rounding f64 to f32 first may break a tie wrongly in one of 2^29 cases: bf16 results come
    // from f32 arithmetic everywhere but in tests.
    if (from.isF64())
      value = arith::TruncFOp::create(b, vector.clone(b.getF32Type()), value);
    return roundToBF16(b, value);
  }
  if (type.isF16()) {
    b.fail(b.getInsertionBlock()->getParentOp(), "stores f16, which host kernels only read");
    return b.integer(vector.clone(b.getIntegerType(16)), 0);
  }
  if (from.getIntOrFloatBitWidth() > type.getIntOrFloatBitWidth())
    return arith::TruncFOp::create(b, vector.clone(type), value);
  return arith::ExtFOp::create(b, vector.clone(type), value);
}

} // namespace gemma::codegen
