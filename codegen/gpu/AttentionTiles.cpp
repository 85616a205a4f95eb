#include "codegen/gpu/AttentionTiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <numeric>

using namespace mlir;

namespace gemma::codegen::cuda {

AttentionTiles::AttentionTiles(GpuBuilder &b, kernel::AttentionOp op)
    : AttentionQueries(b, op), q(b.viewOf(op, op.getQ())), values(b.viewOf(op, op.getVCache())),
      out(b.viewOf(op, op.getOut())) {
  if (op.getKCache())
    keys = b.viewOf(op, op.getKCache());
}

bool AttentionTiles::check() {
  kernel::FlashAttr tile = op.getGpuTileAttr();
  if (!tile) {
    b.fail(op, "has no gpu_tile");
    return false;
  }
  tileKeys = tile.getKeys();
  stages = tile.getStages();
  kvHeads = values.dim(1);
  headDim = values.dim(3);
  group = out.dim(1) / kvHeads;
  rows = llvm::alignTo(static_cast<uint64_t>(op.getQueryTile()) * group, 16);
  auto isFloat = [](const View &view) { return view.element().isBF16() || view.element().isF32(); };
  if (!isFloat(q) || !isFloat(out) || !values.element().isBF16() || !op.getAccumulate().isF32()) {
    b.fail(op, "expected bf16 caches, bf16 or f32 q and out, and f32 sums");
    return false;
  }
  if (op.getPaging().getPage() != page || headDim % 2 != 0) {
    b.fail(op, "expected pages of 16 keys and an even number of lanes, got " +
                   Twine(op.getPaging().getPage()) + " and " + Twine(headDim));
    return false;
  }
  lanes = kernel::paddedLanes(headDim);
  width = std::gcd(headDim, int64_t{8});
  if (rows > b.threads) {
    b.fail(op, "expected a thread a row at least, got " + Twine(rows) + " rows of query_tile " +
                   Twine(op.getQueryTile()) + " by " + Twine(group) + " heads");
    return false;
  }
  return true;
}

void AttentionTiles::allocate() {
  int64_t start = b.mark();
  queryTile = SharedTile::create(b, rows, lanes * 2, 1);
  valueRing = SharedTile::create(b, tileKeys, lanes * 2, stages);
  if (op.getKCache())
    keyRing = SharedTile::create(b, tileKeys / page * lanes, page * 2, stages);
  else
    computedKeys.emplace(b, op, tileKeys);
  probabilities = SharedTile::create(b, rows, tileKeys * 2, 1);
  scores = b.shared({rows, tileKeys + kernel::kScorePadding}, b.getF32Type());
  factors = b.shared({rows}, b.getF32Type());
  b.release(start);
}

Value AttentionTiles::inHead(Value lane) {
  return lanes == headDim ? Value() : b.less(lane, b.index(headDim));
}

void AttentionTiles::copyTile(Value number, Value ringSlot, bool isKeys) {
  b.when(b.less(number, endTile), [&] {
    Value firstPage = b.mul(number, tileKeys / page);
    b.loop(b.index(0), b.index(tileKeys / page), b.index(1), [&](Value i) {
      Value pageNumber = b.add(firstPage, i);
      // Pages in which nothing is visible are not looked up.
      Value lowest = b.floorDiv(firstKey, page), highest = b.floorDiv(lastKey, page);
      Value there = b.both(b.notLess(pageNumber, lowest), b.notLess(highest, pageNumber));
      Value physical = physicalPage(b.minimum(b.maximum(pageNumber, lowest), highest));
      if (isKeys)
        copyKeys(physical, there, b.add(b.mul(ringSlot, tileKeys / page), i));
      else
        copyValues(physical, b.mul(pageNumber, page),
                   b.add(b.mul(ringSlot, tileKeys), b.mul(i, page)));
    });
  });
  b.commitCopies();
}

void AttentionTiles::copyKeys(Value physical, Value there, Value ringPage) {
  b.forShare(lanes * 2, [&](Value chunk) {
    Value d = b.floorDiv(chunk, 2), half = b.mod(chunk, 2);
    Value at = keyRing.pointer(b, b.add(b.mul(ringPage, lanes), d), half);
    Value read = there;
    if (Value inside = inHead(d)) {
      read = b.both(there, inside);
      d = b.select(inside, d, b.index(0));
    }
    Value from = b.pointer(keys, {physical, kvHead, d, b.mul(half, 8)});
    b.copyAsync(at, from, b.select(read, b.index(chunkBytes), b.index(0)));
  });
}

void AttentionTiles::copyValues(Value physical, Value firstPosition, Value ringRow) {
  int64_t pieces = lanes / width;
  b.forShare(page * pieces, [&](Value piece) {
    Value key = b.floorDiv(piece, pieces), lane = b.mul(b.mod(piece, pieces), width);
    Value position = b.add(firstPosition, key);
    Value read = b.both(b.notLess(position, firstKey), b.notLess(lastKey, position));
    Value at = valueRing.lanesPointer(b, b.add(ringRow, key), lane, width);
    if (Value inside = inHead(lane)) {
      read = b.both(read, inside);
      lane = b.select(inside, lane, b.index(0));
    }
    Value from = b.pointer(values, {physical, kvHead, key, lane});
    b.copyAsync(at, from, b.select(read, b.index(2 * width), b.index(0)), 2 * width);
  });
}

void AttentionTiles::loadQueries() {
  int64_t pieces = lanes / width;
  b.loop(b.thread, b.index(rows * pieces), b.index(b.threads), [&](Value piece) {
    Value row = b.floorDiv(piece, pieces), lane = b.mul(b.mod(piece, pieces), width);
    Value read = b.less(row, validRows);
    if (Value inside = inHead(lane))
      read = b.both(read, inside);
    Value zero = b.constant(b.vec(b.getF32Type(), width), 0.0);
    Value loaded = b.choose(read, zero, [&] {
                      auto [token, head] = queryOf(row);
                      head = b.add(head, b.mul(split, out.dim(1))); // this split's copy
                      return SmallVector<Value>{b.loadVector(q, {token, head, lane}, width,
                                                             b.getF32Type(), q.alignment(width))};
                    }).front();
    // Warps go through the loop as one: there are a multiple of 32 pieces.
    if (computedKeys)
      loaded = arith::MulFOp::create(b, loaded, computedKeys->weightOfQuery(lane, width));
    b.storeAt(queryTile.lanesPointer(b, row, lane, width), b.round(loaded, b.getBF16Type()),
              2 * width);
  });
}

void AttentionTiles::storePair(Value row, Value column, Value two) {
  if (out.element().isBF16()) {
    Value at = queryTile.elementPointer(b, row, column);
    b.storeAt(at, b.round(two, b.getBF16Type()), 4);
    return;
  }
  Value write = b.less(row, validRows);
  if (Value inside = inHead(column))
    write = b.both(write, inside);
  b.when(write, [&] {
    auto [token, head] = queryOf(row);
    b.storeAt(b.pointer(out, {token, head, column}), two, 8);
  });
}

void AttentionTiles::storeRows() {
  if (!out.element().isBF16())
    return;
  b.barrier();
  int64_t pieces = headDim / width;
  b.loop(b.thread, b.mul(validRows, pieces), b.index(b.threads), [&](Value piece) {
    Value row = b.floorDiv(piece, pieces), lane = b.mul(b.mod(piece, pieces), width);
    auto [token, head] = queryOf(row);
    Value at = queryTile.lanesPointer(b, row, lane, width);
    Value part = b.loadAt(at, b.vec(b.getBF16Type(), width), 2 * width);
    b.storeAt(b.pointer(out, {token, head, lane}), part, 2 * width);
  });
}

} // namespace gemma::codegen::cuda
