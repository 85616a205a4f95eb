#include "codegen/gpu/KeysOfValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <numeric>

using namespace mlir;

namespace gemma::codegen::cuda {

/// Entries of a level of the angle tables: position p is row p / 512 of the upper and p mod 512 of
/// the lower one.
constexpr int64_t tableRows = 512;

KeysOfValues::KeysOfValues(GpuBuilder &b, kernel::AttentionOp op, int64_t tileKeys)
    : lanes(kernel::computedLanes(op)), b(b), tileKeys(tileKeys) {
  SmallVector<View> parts;
  for (Value part : op.getKeyParts())
    parts.push_back(b.viewOf(op, part));
  weight = parts[0];
  cosHigh = parts[1];
  sinHigh = parts[2];
  cosLow = parts[3];
  sinLow = parts[4];
  dim = weight.dim(0);
  active = cosHigh.dim(1);
  // Of angles and weights, which are f32, 16 bytes a thread: side by side for the threads of a
  // warp.
  width = std::gcd(std::gcd(int64_t{4}, dim), std::gcd(active, lanes.half));
  for (const View &view : parts)
    if (view.element().isF64())
      b.fail(op, "holds f64, which GPU kernels do not compute with");
  tile = SharedTile::create(b, tileKeys, lanes.lanes * 2, 1);
}

Value KeysOfValues::columnOf(Value lane) {
  if (lanes.second == lanes.half)
    return lane;
  return b.select(b.less(lane, b.index(lanes.half)), lane, b.add(lane, lanes.second - lanes.half));
}

Value KeysOfValues::weighted(const SharedTile &values, Value row, Value lane) {
  Type f32 = b.getF32Type();
  Value stored =
      b.loadAt(values.lanesPointer(b, row, lane, width), b.vec(b.getBF16Type(), width), 2 * width);
  // Lanes beyond the head are zero, whatever they are multiplied with.
  if (dim % 16 != 0)
    lane = b.minimum(lane, b.index(dim - width));
  Value w = b.loadVector(weight, lane, width, f32, weight.alignment(width));
  return arith::MulFOp::create(b, b.widen(stored, f32), w);
}

void KeysOfValues::store(Value key, Value lane, Value elements) {
  b.storeAt(tile.lanesPointer(b, key, columnOf(lane), width), b.round(elements, b.getBF16Type()),
            2 * width);
}

void KeysOfValues::emitPlain(const SharedTile &values, Value firstRow) {
  // In each half behind the rotated ones; all: to the end of the row.
  int64_t first = (lanes.ofHalf - active) / width;
  int64_t second = (lanes.all ? lanes.lanes - lanes.half : lanes.ofHalf) / width - active / width;
  if (first + second == 0)
    return;
  b.loop(b.thread, b.index(tileKeys * (first + second)), b.index(b.threads), [&](Value i) {
    Value key = b.floorDiv(i, first + second), piece = b.mod(i, first + second);
    Value lane = b.mul(piece, width);
    lane = b.select(b.less(piece, b.index(first)), b.add(lane, active),
                    b.add(lane, lanes.half + active - first * width));
    store(key, lane, weighted(values, b.add(firstRow, key), lane));
  });
}

void KeysOfValues::emit(const SharedTile &values, Value firstRow, Value firstPosition) {
  emitPlain(values, firstRow);
  int64_t pieces = active / width;
  b.loop(b.thread, b.index(tileKeys * pieces), b.index(b.threads), [&](Value i) {
    auto mul = [&](Value x, Value y) { return arith::MulFOp::create(b, x, y).getResult(); };
    Value key = b.floorDiv(i, pieces), lane = b.mul(b.mod(i, pieces), width);
    Value row = b.add(firstRow, key), position = b.add(firstPosition, key);
    auto angle = [&](const View &table, Value at) {
      return b.loadVector(table, {at, lane}, width, b.getF32Type(), table.alignment(width));
    };
    Value high = b.floorDiv(position, tableRows), low = b.mod(position, tableRows);
    Value ch = angle(cosHigh, high), sh = angle(sinHigh, high);
    Value cl = angle(cosLow, low), sl = angle(sinLow, low);
    Value cosine = arith::SubFOp::create(b, mul(ch, cl), mul(sh, sl));
    Value sine = arith::AddFOp::create(b, mul(sh, cl), mul(ch, sl));
    Value other = b.add(lane, lanes.half);
    Value x = weighted(values, row, lane), y = weighted(values, row, other);
    store(key, lane, arith::SubFOp::create(b, mul(x, cosine), mul(y, sine)));
    store(key, other, arith::AddFOp::create(b, mul(y, cosine), mul(x, sine)));
  });
}

Value KeysOfValues::weightOfQuery(Value lane, int64_t count) {
  Value one = b.constant(b.vec(b.getF32Type(), count), 1.0);
  if (lanes.all)
    return one;
  Value w;
  if (count == 8 && dim % 64 == 0 && weight.element().isF32()) {
    Value from = b.pointer(weight, lane);
    w = b.joinHalves(b.exchangeHalves(b.loadHalves(from, weight.constant)));
  } else {
    // Lanes beyond the head are zero, whatever they are multiplied with.
    Value inHead = dim % 16 == 0 ? lane : b.minimum(lane, b.index(dim - count));
    w = b.loadVector(weight, inHead, count, b.getF32Type(), weight.alignment(count));
  }
  // count divides 8 and the parts are multiples of 16: all of them are computed, or none.
  Value inSecond = b.notLess(lane, b.index(lanes.half));
  Value ofHalf = b.select(inSecond, b.add(lane, -lanes.half), lane);
  return b.select(b.less(ofHalf, b.index(lanes.ofHalf)), one, w);
}

} // namespace gemma::codegen::cuda
