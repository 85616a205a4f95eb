#include "codegen/cpu/KeysOfValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace gemma::codegen {

KeysOfValues::KeysOfValues(KernelBuilder &b, kernel::AttentionOp op, ArrayRef<MemRefType> blocks)
    : b(b), op(op), compute(op.getAccumulate()), values(b.viewOf(op, op.getVCache())),
      weight(b.viewOf(op, op.getKeyParts()[0])), cosHigh(b.viewOf(op, op.getKeyParts()[1])),
      sinHigh(b.viewOf(op, op.getKeyParts()[2])), cosLow(b.viewOf(op, op.getKeyParts()[3])),
      sinLow(b.viewOf(op, op.getKeyParts()[4])), dim(values.dim(3)), page(values.dim(2)),
      half(static_cast<int64_t>(*op.getRot()) / 2), active(cosLow.dim(1)),
      lanes(std::min(b.lanes(compute), page)), widens(blocks.size() == 3) {
  queries = b.scratch(blocks[0]);
  rotated = b.scratch(blocks[1]);
  if (widens)
    widened = b.scratch(blocks[2]);
}

void KeysOfValues::foldQuery(Value row, Load load) {
  for (auto [begin, end] : {std::pair(active, half), std::pair(half + active, dim)})
    forChunks(b, begin, end, lanes, 4, [&](Value d, int64_t width) {
      Value w = b.loadVector(weight, d, width, compute);
      b.storeVector(queries, {row, d}, arith::MulFOp::create(b, load(d, width), w));
    });
}

void KeysOfValues::turnQuery(Value row, Value block, Load load) {
  forChunks(b, 0, active, lanes, 1, [&](Value d, int64_t width) {
    Value mate = b.add(d, b.index(half));
    Value x = load(d, width), y = load(mate, width);
    Value cosine = b.loadVector(cosHigh, {block, d}, width, compute);
    Value sine = b.loadVector(sinHigh, {block, d}, width, compute);
    // By minus the angle.
    b.storeVector(queries, {row, d}, b.mulAdd(y, sine, arith::MulFOp::create(b, x, cosine)));
    Value back = arith::NegFOp::create(b, sine);
    b.storeVector(queries, {row, mate}, b.mulAdd(x, back, arith::MulFOp::create(b, y, cosine)));
  });
}

void KeysOfValues::takePage(Value physicalPage, Value head, Value number) {
  physical = physicalPage;
  kvHead = head;
  Value first = b.mul(b.mod(number, blockPositions / page), page);
  b.loop(b.index(0), b.index(page), 1, [&](Value key) {
    if (widens)
      forChunks(b, 0, dim, lanes, 4, [&](Value d, int64_t width) {
        b.storeVector(widened, {key, d},
                      b.loadVector(values, {physical, kvHead, key, d}, width, compute));
      });
    forChunks(b, 0, active, lanes, 1, [&](Value d, int64_t width) {
      Value mate = b.add(d, b.index(half)), position = b.add(first, key);
      auto scaled = [&](Value at) {
        return arith::MulFOp::create(b, loadValue(key, at, width),
                                     b.loadVector(weight, at, width, compute));
      };
      Value x = scaled(d), y = scaled(mate);
      Value cosine = b.loadVector(cosLow, {position, d}, width, compute);
      Value sine = b.loadVector(sinLow, {position, d}, width, compute);
      Value back = arith::NegFOp::create(b, sine);
      b.storeVector(rotated, {key, d}, b.mulAdd(y, back, arith::MulFOp::create(b, x, cosine)));
      b.storeVector(rotated, {key, b.add(d, b.index(active))},
                    b.mulAdd(x, sine, arith::MulFOp::create(b, y, cosine)));
    });
  });
}

Value KeysOfValues::loadValue(Value key, Value d, int64_t width) {
  if (widens)
    return b.loadVector(widened, {key, d}, width, compute);
  return b.loadVector(values, {physical, kvHead, key, d}, width, compute);
}

Value KeysOfValues::sumsOf(SmallVector<Value> vectors) {
  // Lane l of a step's result holds sums of the vector that bit `stride` of l chooses of two.
  for (int64_t stride = 1; vectors.size() > 1; stride *= 2) {
    SmallVector<Value> next;
    for (size_t i = 0; i < vectors.size(); i += 2) {
      SmallVector<int64_t> own, other;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        int64_t second = lane & stride ? lanes : 0;
        own.push_back(second + lane);
        other.push_back(second + (lane ^ stride));
      }
      Value a = vector::ShuffleOp::create(b, vectors[i], vectors[i + 1], own);
      Value c = vector::ShuffleOp::create(b, vectors[i], vectors[i + 1], other);
      next.push_back(arith::AddFOp::create(b, a, c));
    }
    vectors = next;
  }
  return vectors.front();
}

void KeysOfValues::addProducts(SmallVector<Value> &totals, Value row, int64_t firstKey,
                               int64_t begin, int64_t end, LoadKey load) {
  auto padded = [&](Value part, int64_t width) -> Value {
    if (width == lanes)
      return part;
    return vector::InsertStridedSliceOp::create(b, part, b.constant(b.vec(compute, lanes), 0.0),
                                                ArrayRef<int64_t>{0}, ArrayRef<int64_t>{1});
  };
  auto add = [&](ValueRange sums, Value d, int64_t width) {
    SmallVector<Value> next;
    Value query = padded(b.loadVector(queries, {row, d}, width, compute), width);
    for (auto [j, sum] : llvm::enumerate(sums)) {
      Value key = load(b.index(firstKey + static_cast<int64_t>(j)), d, width);
      next.push_back(b.mulAdd(query, padded(key, width), sum));
    }
    return next;
  };
  int64_t at = begin + (end - begin) / lanes * lanes;
  totals = b.loop(b.index(begin), b.index(at), lanes, totals,
                  [&](Value d, ValueRange carried) { return add(carried, d, lanes); });
  for (int64_t width = lanes / 2; width > 0; width /= 2)
    for (; end - at >= width; at += width)
      totals = add(totals, b.index(at), width);
}

void KeysOfValues::score(Value row, const View &scores) {
  auto turned = [&](int64_t shift) {
    return [this, shift](Value key, Value d, int64_t width) {
      return b.loadVector(rotated, {key, b.add(d, b.index(shift))}, width, compute);
    };
  };
  auto plain = [&](Value key, Value d, int64_t width) { return loadValue(key, d, width); };
  // As many keys as a vector has lanes: their sums become one vector.
  for (int64_t firstKey = 0; firstKey < page; firstKey += lanes) {
    SmallVector<Value> totals(static_cast<size_t>(lanes), b.constant(b.vec(compute, lanes), 0.0));
    addProducts(totals, row, firstKey, 0, active, turned(0));
    addProducts(totals, row, firstKey, active, half, plain);
    addProducts(totals, row, firstKey, half, half + active, turned(active - half));
    addProducts(totals, row, firstKey, half + active, dim, plain);
    Value score = sumsOf(totals);
    if (double scale = op.getScale().convertToDouble(); scale != 1.0)
      score = arith::MulFOp::create(b, score, b.constant(score.getType(), scale));
    b.storeVector(scores, {row, b.index(firstKey)}, score);
  }
}

} // namespace gemma::codegen
