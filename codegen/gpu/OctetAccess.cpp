// Eight f32 a lane, side by side in memory, by accesses of 16 bytes that cover whole sectors and
// use all banks.
#include "codegen/gpu/GpuBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace gemma::codegen::cuda {

constexpr int64_t halfBytes = 16;
constexpr int64_t fourOctets = 4 * 2 * halfBytes;

Value GpuBuilder::inUpperFour() { return notLess(mod(lane, 8), index(4)); }

Value GpuBuilder::movedBy(Value pointer, Value bytes) {
  return LLVM::GEPOp::create(*this, pointer.getType(), getI8Type(), pointer,
                             ArrayRef<LLVM::GEPArg>{bytes});
}

Value GpuBuilder::joinHalves(std::pair<Value, Value> halves) {
  SmallVector<Value> elements;
  for (Value half : {halves.first, halves.second})
    for (int64_t i = 0; i < 4; ++i)
      elements.push_back(extract(half, i));
  return fromElements(elements);
}

std::pair<Value, Value> GpuBuilder::splitOctet(Value octet) {
  SmallVector<Value> elements;
  for (int64_t i = 0; i < 8; ++i)
    elements.push_back(extract(octet, i));
  ArrayRef<Value> all = elements;
  return {fromElements(all.take_front(4)), fromElements(all.drop_front(4))};
}

// A phase of a wide access to shared memory is eight lanes. In the order of their halves these
// would use the 16 banks of every other 16 bytes; with the upper four lanes the other way round
// they use all 32.

Value GpuBuilder::loadSharedOctet(Value pointer) {
  Value upper = inUpperFour();
  Value moved = select(upper, index(halfBytes), index(0));
  Type four = vec(getF32Type(), 4);
  Value first = loadAt(movedBy(pointer, moved), four, halfBytes);
  Value second = loadAt(movedBy(pointer, sub(index(halfBytes), moved)), four, halfBytes);
  return joinHalves({select(upper, second, first), select(upper, first, second)});
}

void GpuBuilder::storeSharedOctet(Value pointer, Value octet) {
  Value upper = inUpperFour();
  Value moved = select(upper, index(halfBytes), index(0));
  auto [low, high] = splitOctet(octet);
  storeAt(movedBy(pointer, moved), select(upper, high, low), halfBytes);
  storeAt(movedBy(pointer, sub(index(halfBytes), moved)), select(upper, low, high), halfBytes);
}

// The first access moves the four octets of the lower lanes, the second those of the upper ones:
// 128 bytes each, the lower lanes the low halves and the upper lanes the high ones.

std::pair<Value, Value> GpuBuilder::loadHalves(Value pointer, bool constant) {
  Value start = movedBy(pointer, select(inUpperFour(), index(halfBytes - fourOctets), index(0)));
  Type four = vec(getF32Type(), 4);
  return {loadAt(start, four, halfBytes, constant),
          loadAt(movedBy(start, index(fourOctets)), four, halfBytes, constant)};
}

void GpuBuilder::storeHalves(Value pointer, std::pair<Value, Value> halves) {
  Value start = movedBy(pointer, select(inUpperFour(), index(halfBytes - fourOctets), index(0)));
  storeAt(start, halves.first, halfBytes);
  storeAt(movedBy(start, index(fourOctets)), halves.second, halfBytes);
}

std::pair<Value, Value> GpuBuilder::exchangeHalves(std::pair<Value, Value> halves) {
  Value upper = inUpperFour();
  Value sent = select(upper, halves.first, halves.second);
  SmallVector<Value> received;
  for (int64_t i = 0; i < 4; ++i)
    received.push_back(shuffleXor(extract(sent, i), 4));
  Value other = fromElements(received);
  return {select(upper, other, halves.first), select(upper, halves.second, other)};
}

} // namespace gemma::codegen::cuda
