#include "codegen/cpu/KeysOfValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace gemma::codegen {

KeysOfValues::KeysOfValues(AttentionBlock &block, ArrayRef<MemRefType> blocks)
    : block(block), b(block.b), weight(b.viewOf(block.op, block.op.getKeyParts()[0])),
      cosHigh(b.viewOf(block.op, block.op.getKeyParts()[1])),
      sinHigh(b.viewOf(block.op, block.op.getKeyParts()[2])),
      cosLow(b.viewOf(block.op, block.op.getKeyParts()[3])),
      sinLow(b.viewOf(block.op, block.op.getKeyParts()[4])),
      ofValues(b, block.values, block.compute, block.headDim, block.lanes),
      half(block.op.getRotAttr().getInt() / 2), active(cosLow.dim(1)),
      pairs(ofValues.paired() && active % (2 * block.lanes) == 0 && half % (2 * block.lanes) == 0) {
  queries = b.scratch(blocks[0]);
  rotated = b.scratch(blocks[1]);
}

Value KeysOfValues::query(Value row, Value d, int64_t width) {
  auto [token, head] = block.queryOf(row);
  return b.loadVector(block.q, {token, head, d}, width, block.compute);
}

Value KeysOfValues::value(Value physicalPage, Value key, Value d, int64_t width) {
  return b.loadVector(block.values, {physicalPage, block.kvHead, key, d}, width, block.compute);
}

void KeysOfValues::foldQueries() {
  b.loop(b.index(0), block.rows, 1, [&](Value row) {
    auto folded = [&](Value d, int64_t width) -> Value {
      Value w = b.loadVector(weight, d, width, block.compute);
      return arith::MulFOp::create(b, query(row, d, width), w);
    };
    int64_t lanes = block.lanes;
    for (auto [begin, end] : {std::pair(active, half), std::pair(half + active, block.headDim)}) {
      if (pairs)
        b.loop(b.index(begin), b.index(end), 2 * lanes, [&](Value d) {
          Value second = b.add(d, b.index(lanes));
          auto registers = ofValues.toRegisters({folded(d, lanes), folded(second, lanes)});
          b.storeVector(queries, {row, d}, registers[0]);
          b.storeVector(queries, {row, second}, registers[1]);
        });
      else
        forChunks(b, begin, end, lanes, 4, [&](Value d, int64_t width) {
          b.storeVector(queries, {row, d}, folded(d, width));
        });
    }
  });
}

void KeysOfValues::turnQueries(Value number) {
  b.loop(b.index(0), block.rows, 1, [&](Value row) {
    forChunks(b, 0, active, block.lanes, 1, [&](Value d, int64_t width) {
      Value mate = b.add(d, b.index(half));
      Value x = query(row, d, width), y = query(row, mate, width);
      Value cosine = b.loadVector(cosHigh, {number, d}, width, block.compute);
      Value sine = b.loadVector(sinHigh, {number, d}, width, block.compute);
      // By minus the angle.
      b.storeVector(queries, {row, d}, b.mulAdd(y, sine, arith::MulFOp::create(b, x, cosine)));
      Value back = arith::NegFOp::create(b, sine);
      b.storeVector(queries, {row, mate}, b.mulAdd(x, back, arith::MulFOp::create(b, y, cosine)));
    });
  });
}

void KeysOfValues::rotatePage(Value page, Value place) {
  Value base = b.mod(block.tileStart, blockPositions);
  b.loop(b.index(0), b.index(block.page), 1, [&](Value key) {
    if (block.queryTile == 1) { // its scores come next
      Value next = b.minimum(b.add(key, b.index(1)), b.index(block.page - 1));
      block.prefetch(block.values, {place, block.kvHead, next, b.index(0)}, block.headDim,
                     /*locality=*/3);
    }
    Value ofTile = b.add(b.mul(page, block.page), key), position = b.add(base, ofTile);
    forChunks(b, 0, active, block.lanes, 1, [&](Value d, int64_t width) {
      Value mate = b.add(d, b.index(half));
      auto scaled = [&](Value at) {
        return arith::MulFOp::create(b, value(place, key, at, width),
                                     b.loadVector(weight, at, width, block.compute));
      };
      Value x = scaled(d), y = scaled(mate);
      Value cosine = b.loadVector(cosLow, {position, d}, width, block.compute);
      Value sine = b.loadVector(sinLow, {position, d}, width, block.compute);
      Value back = arith::NegFOp::create(b, sine);
      b.storeVector(rotated, {ofTile, d}, b.mulAdd(y, back, arith::MulFOp::create(b, x, cosine)));
      b.storeVector(rotated, {ofTile, b.add(d, b.index(active))},
                    b.mulAdd(x, sine, arith::MulFOp::create(b, y, cosine)));
    });
  });
}

Value KeysOfValues::sumsOf(SmallVector<Value> vectors) {
  // Lane l of a step's result holds sums of the vector that bit `stride` of l chooses of two; of
  // the last vectors all lanes have some.
  auto exchanged = [&](Value first, Value second, int64_t stride) -> Value {
    SmallVector<int64_t> own, other;
    for (int64_t lane = 0; lane < block.lanes; ++lane) {
      int64_t chosen = lane & stride ? block.lanes : 0;
      own.push_back(chosen + lane);
      other.push_back(chosen + (lane ^ stride));
    }
    Value a = vector::ShuffleOp::create(b, first, second, own);
    Value c = vector::ShuffleOp::create(b, first, second, other);
    return arith::AddFOp::create(b, a, c);
  };
  for (int64_t stride = 1; stride < block.lanes; stride *= 2) {
    SmallVector<Value> next;
    for (size_t i = 0; i < vectors.size(); i += 2)
      next.push_back(exchanged(vectors[i], vectors[vectors.size() == 1 ? i : i + 1], stride));
    vectors = next;
  }
  return vectors.front();
}

void KeysOfValues::addProducts(SmallVector<Value> &totals, int64_t begin, int64_t end,
                               std::optional<int64_t> turned) {
  int64_t lanes = block.lanes;
  auto padded = [&](Value vector, int64_t width) -> Value {
    if (width == lanes)
      return vector;
    return vector::InsertStridedSliceOp::create(b, vector,
                                                b.constant(b.vec(block.compute, lanes), 0.0),
                                                ArrayRef<int64_t>{0}, ArrayRef<int64_t>{1});
  };
  auto add = [&](SmallVector<Value> &sums, Value d, int64_t width, ArrayRef<Value> keys) {
    for (auto [r, row] : llvm::enumerate(rowList)) {
      Value q = padded(b.loadVector(queries, {row, d}, width, block.compute), width);
      for (auto [j, key] : llvm::enumerate(keys)) {
        Value &sum = sums[r * keys.size() + j];
        sum = b.mulAdd(q, key, sum);
      }
    }
  };
  auto natural = [&](ValueRange carried, Value d, int64_t width) {
    SmallVector<Value> sums(carried), keys;
    for (auto [key, place] : llvm::zip_equal(keyList, placeList))
      keys.push_back(padded(
          turned ? b.loadVector(rotated, {place, b.sub(d, b.index(*turned))}, width, block.compute)
                 : value(physical, key, d, width),
          width));
    add(sums, d, width, keys);
    return sums;
  };
  if (pairs && !turned) {
    totals =
        b.loop(b.index(begin), b.index(end), 2 * lanes, totals, [&](Value d, ValueRange carried) {
          SmallVector<Value> sums(carried), even, odd;
          for (Value key : keyList) {
            auto pair = ofValues.loadPair({physical, block.kvHead, key, d});
            even.push_back(pair[0]);
            odd.push_back(pair[1]);
          }
          add(sums, d, lanes, even);
          add(sums, b.add(d, b.index(lanes)), lanes, odd);
          return sums;
        });
    return;
  }
  int64_t at = begin + (end - begin) / lanes * lanes;
  totals = b.loop(b.index(begin), b.index(at), lanes, totals,
                  [&](Value d, ValueRange carried) { return natural(carried, d, lanes); });
  for (int64_t width = lanes / 2; width > 0; width /= 2)
    for (; end - at >= width; at += width)
      totals = natural(totals, b.index(at), width);
}

void KeysOfValues::scoreKeys(Value firstRow, int64_t count, Value physicalPage, Value firstKey,
                             Value place) {
  int64_t keys = std::min({block.sums / count, block.lanes, block.page});
  physical = physicalPage;
  rowList.clear();
  keyList.clear();
  placeList.clear();
  for (int64_t r = 0; r < count; ++r)
    rowList.push_back(b.add(firstRow, b.index(r)));
  for (int64_t j = 0; j < keys; ++j) {
    keyList.push_back(b.add(firstKey, b.index(j)));
    placeList.push_back(b.add(place, b.index(j)));
  }
  SmallVector<Value> totals(static_cast<size_t>(count * keys),
                            b.constant(b.vec(block.compute, block.lanes), 0.0));
  addProducts(totals, 0, active, 0);
  addProducts(totals, active, half, std::nullopt);
  addProducts(totals, half, half + active, half - active);
  addProducts(totals, half + active, block.headDim, std::nullopt);
  for (auto [r, row] : llvm::enumerate(rowList)) {
    ArrayRef<Value> ofRow = ArrayRef(totals).slice(r * static_cast<size_t>(keys), keys);
    Value sums = sumsOf(SmallVector<Value>(ofRow));
    if (keys < block.lanes)
      sums = vector::ExtractStridedSliceOp::create(b, sums, ArrayRef<int64_t>{0},
                                                   ArrayRef<int64_t>{keys}, ArrayRef<int64_t>{1});
    b.storeVector(block.scores, {row, place}, sums);
  }
}

void KeysOfValues::emitScores() {
  auto forPages = [&](llvm::function_ref<void(Value page, Value place)> body) {
    Value first = b.maximum(b.sub(block.firstPage, block.tilePage), b.index(0));
    Value end = b.minimum(b.sub(block.endPage, block.tilePage), b.index(block.tilePages));
    b.loop(first, end, 1, [&](Value page) { body(page, block.physicalOfTile(page)); });
  };
  auto scorePage = [&](Value firstRow, int64_t count, Value page, Value place) {
    int64_t step = std::min({block.sums / count, block.lanes, block.page});
    b.loop(b.index(0), b.index(block.page), step, [&](Value key) {
      scoreKeys(firstRow, count, place, key, b.add(b.mul(page, block.page), key));
    });
  };
  // What L1 keeps: a page of keys for the rows of one token, else some rows for the tile's keys.
  if (block.queryTile == 1)
    return forPages([&](Value page, Value place) {
      rotatePage(page, place);
      block.forRows([&](Value first, int64_t count) { scorePage(first, count, page, place); });
    });
  forPages([&](Value page, Value place) { rotatePage(page, place); });
  block.forRows([&](Value first, int64_t count) {
    forPages([&](Value page, Value place) { scorePage(first, count, page, place); });
  });
}

} // namespace gemma::codegen
