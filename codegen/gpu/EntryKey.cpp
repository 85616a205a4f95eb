#include "codegen/gpu/EntryKey.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace gemma::codegen::cuda {

static Value join(GpuBuilder &b, Value high, Value low) {
  Type i64 = b.getI64Type();
  Value shifted =
      arith::ShLIOp::create(b, arith::ExtUIOp::create(b, i64, high), b.integer(i64, 32));
  return arith::OrIOp::create(b, shifted, arith::ExtUIOp::create(b, i64, low));
}

Value entryKey(GpuBuilder &b, Value value, Value column) {
  Type i32 = b.getI32Type();
  Value positiveZero = arith::AddFOp::create(b, value, b.f32(0.0));
  Value bits = arith::BitcastOp::create(b, i32, positiveZero);
  // Negative numbers: all bits flipped; others: the sign bit.
  Value flip = arith::OrIOp::create(b, arith::ShRSIOp::create(b, bits, b.index(31)),
                                    b.integer(i32, int32_t(0x80000000)));
  Value ordered = arith::XOrIOp::create(b, bits, flip);
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
  ordered = b.select(isNan, b.index(0), ordered);
  return join(b, ordered, b.sub(b.index(-1), column));
}

Value columnOfKey(GpuBuilder &b, Value key) {
  return b.sub(b.index(-1), arith::TruncIOp::create(b, b.getI32Type(), key));
}

Value largestKeyOf(GpuBuilder &b, Value key, int64_t lanes) {
  for (int64_t mask = lanes / 2; mask > 0; mask /= 2) {
    Value low = arith::TruncIOp::create(b, b.getI32Type(), key);
    Value high = arith::TruncIOp::create(
        b, b.getI32Type(), arith::ShRUIOp::create(b, key, b.integer(b.getI64Type(), 32)));
    Value other = join(b, b.shuffleXor(high, mask), b.shuffleXor(low, mask));
    key = arith::MaxUIOp::create(b, key, other);
  }
  return key;
}

} // namespace gemma::codegen::cuda
