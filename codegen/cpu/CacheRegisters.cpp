#include "codegen/cpu/CacheRegisters.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace gemma::codegen {

CacheRegisters::CacheRegisters(KernelBuilder &b, const View &view, Type compute, int64_t length,
                               int64_t lanes)
    : b(b), view(view), lanes(lanes),
      // Without fused multiply-adds products need registers that pairs would take.
      pairs(b.target.fma && view.element().isBF16() && compute.isF32() && lanes > 1 &&
            length % (2 * lanes) == 0) {}

CacheRegisters::Pair CacheRegisters::loadPair(ValueRange at) {
  auto words = b.vec(b.getI32Type(), lanes), floats = b.vec(b.getF32Type(), lanes);
  Value halves = vector::LoadOp::create(b, b.vec(b.getIntegerType(16), 2 * lanes), view.memory, at);
  Value both = vector::BitCastOp::create(b, words, halves);
  Value even = arith::ShLIOp::create(b, both, b.integer(words, 16));
  Value odd = arith::AndIOp::create(b, both, b.integer(words, -65536));
  return {arith::BitcastOp::create(b, floats, even), arith::BitcastOp::create(b, floats, odd)};
}

CacheRegisters::Pair CacheRegisters::shuffle(Pair pair, ArrayRef<int64_t> first,
                                             ArrayRef<int64_t> second) {
  return {vector::ShuffleOp::create(b, pair[0], pair[1], first),
          vector::ShuffleOp::create(b, pair[0], pair[1], second)};
}

CacheRegisters::Pair CacheRegisters::toNatural(Pair registers) {
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < lanes; ++i)
    order.append({i, lanes + i});
  ArrayRef<int64_t> all = order;
  return shuffle(registers, all.take_front(lanes), all.drop_front(lanes));
}

CacheRegisters::Pair CacheRegisters::toRegisters(Pair natural) {
  SmallVector<int64_t> even, odd;
  for (int64_t i = 0; i < lanes; ++i) {
    even.push_back(2 * i);
    odd.push_back(2 * i + 1);
  }
  return shuffle(natural, even, odd);
}

} // namespace gemma::codegen
