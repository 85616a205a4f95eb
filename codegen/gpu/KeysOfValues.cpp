#include "codegen/gpu/KeysOfValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace gemma::codegen::cuda {

/// Entries of a level of the angle tables: position p is row p / 512 of the upper and p mod 512 of
/// the lower one.
constexpr int64_t tableRows = 512;

KeysOfValues::KeysOfValues(GpuBuilder &b, kernel::AttentionOp op, int64_t tileKeys)
    : b(b), tileKeys(tileKeys) {
  SmallVector<View> parts;
  for (Value part : op.getKeyParts())
    parts.push_back(b.viewOf(op, part));
  weight = parts[0];
  cosHigh = parts[1];
  sinHigh = parts[2];
  cosLow = parts[3];
  sinLow = parts[4];
  auto rot = static_cast<int64_t>(*op.getRot());
  chunks = weight.dim(0) / 8;
  active = cosHigh.dim(1) / 8;
  half = rot / 16;
  for (const View &view : parts)
    if (view.element().isF64())
      b.fail(op, "holds f64, which GPU kernels do not compute with");
  if (weight.dim(0) % 8 != 0 || cosHigh.dim(1) % 8 != 0 || rot % 16 != 0)
    b.fail(op, "expected a multiple of 8 rotated pairs and of 16 lanes, got " +
                   Twine(cosHigh.dim(1)) + " pairs of " + Twine(rot) + " lanes");
  tile = SharedTile::create(b, tileKeys, weight.dim(0) * 2, 1);
}

Value KeysOfValues::weighted(const SharedTile &values, Value row, Value chunk) {
  Type f32 = b.getF32Type();
  Value stored = b.loadAt(values.pointer(b, row, chunk), b.vec(b.getBF16Type(), 8), chunkBytes);
  Value w = b.loadVector(weight, b.mul(chunk, 8), 8, f32, chunkBytes);
  return arith::MulFOp::create(b, b.widen(stored, f32), w);
}

void KeysOfValues::store(Value key, Value chunk, Value elements) {
  b.storeAt(tile.pointer(b, key, chunk), b.round(elements, b.getBF16Type()), chunkBytes);
}

void KeysOfValues::emit(const SharedTile &values, Value firstRow, Value firstPosition) {
  Value threads = b.index(b.threads);
  // Chunks that rope leaves alone.
  int64_t plain = chunks - 2 * active;
  if (plain > 0)
    b.loop(b.thread, b.index(tileKeys * plain), threads, [&](Value i) {
      Value key = b.floorDiv(i, plain), chunk = b.add(b.mod(i, plain), active);
      // After those before the second half's rotated ones.
      chunk = b.select(b.less(chunk, b.index(half)), chunk, b.add(chunk, active));
      store(key, chunk, weighted(values, b.add(firstRow, key), chunk));
    });
  b.loop(b.thread, b.index(tileKeys * active), threads, [&](Value i) {
    auto mul = [&](Value x, Value y) { return arith::MulFOp::create(b, x, y).getResult(); };
    Value key = b.floorDiv(i, active), chunk = b.mod(i, active), row = b.add(firstRow, key);
    Value position = b.add(firstPosition, key), column = b.mul(chunk, 8);
    auto angle = [&](const View &table, Value at) {
      return b.loadVector(table, {at, column}, 8, b.getF32Type(), chunkBytes);
    };
    Value high = b.floorDiv(position, tableRows), low = b.mod(position, tableRows);
    Value ch = angle(cosHigh, high), sh = angle(sinHigh, high);
    Value cl = angle(cosLow, low), sl = angle(sinLow, low);
    Value cosine = arith::SubFOp::create(b, mul(ch, cl), mul(sh, sl));
    Value sine = arith::AddFOp::create(b, mul(sh, cl), mul(ch, sl));
    Value x = weighted(values, row, chunk), y = weighted(values, row, b.add(chunk, half));
    store(key, chunk, arith::SubFOp::create(b, mul(x, cosine), mul(y, sine)));
    store(key, b.add(chunk, half), arith::AddFOp::create(b, mul(y, cosine), mul(x, sine)));
  });
}

} // namespace gemma::codegen::cuda
