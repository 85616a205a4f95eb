#include "codegen/gpu/AttentionTiles.h"

using namespace mlir;

namespace gemma::codegen::cuda {

AttentionTiles::AttentionTiles(GpuBuilder &b, kernel::AttentionOp op)
    : AttentionQueries(b, op), q(b.viewOf(op, op.getQ())), values(b.viewOf(op, op.getVCache())),
      out(b.viewOf(op, op.getOut())) {
  if (op.getKCache())
    keys = b.viewOf(op, op.getKCache());
}

bool AttentionTiles::check() {
  if (!op.getGpuTile()) {
    b.fail(op, "has no gpu_tile");
    return false;
  }
  tileKeys = op.getGpuTile()->getKeys();
  stages = op.getGpuTile()->getStages();
  kvHeads = values.dim(1);
  headDim = values.dim(3);
  group = out.dim(1) / kvHeads;
  rows = llvm::alignTo(static_cast<uint64_t>(op.getQueryTile()) * group, 16);
  auto isFloat = [](const View &view) { return view.element().isBF16() || view.element().isF32(); };
  if (!isFloat(q) || !isFloat(out) || !values.element().isBF16() || !op.getAccumulate().isF32()) {
    b.fail(op, "expected bf16 caches, bf16 or f32 q and out, and f32 sums");
    return false;
  }
  if (op.getPaging().getPage() != page || headDim % 16 != 0) {
    b.fail(op, "expected pages of 16 keys and heads of a multiple of 16, got " +
                   Twine(op.getPaging().getPage()) + " and " + Twine(headDim));
    return false;
  }
  if (rows > b.threads) {
    b.fail(op, "expected a thread a row at least, got " + Twine(rows) + " rows of query_tile " +
                   Twine(op.getQueryTile()) + " by " + Twine(group) + " heads");
    return false;
  }
  return true;
}

void AttentionTiles::allocate() {
  int64_t start = b.mark();
  queryTile = SharedTile::create(b, rows, headDim * 2, 1);
  valueRing = SharedTile::create(b, tileKeys, headDim * 2, stages);
  if (op.getKCache())
    keyRing = SharedTile::create(b, tileKeys / page * headDim, page * 2, stages);
  else
    computedKeys.emplace(b, op, tileKeys);
  probabilities = SharedTile::create(b, rows, tileKeys * 2, 1);
  scores = b.shared({rows, tileKeys + 4}, b.getF32Type());
  factors = b.shared({rows}, b.getF32Type());
  b.release(start);
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
  Value bytes = b.select(there, b.index(chunkBytes), b.index(0));
  b.forShare(headDim * 2, [&](Value chunk) {
    Value d = b.floorDiv(chunk, 2), half = b.mod(chunk, 2);
    Value from = b.pointer(keys, {physical, kvHead, d, b.mul(half, 8)});
    Value at = keyRing.pointer(b, b.add(b.mul(ringPage, headDim), d), half);
    b.copyAsync(at, from, bytes);
  });
}

void AttentionTiles::copyValues(Value physical, Value firstPosition, Value ringRow) {
  int64_t chunks = headDim / 8;
  b.forShare(page * chunks, [&](Value chunk) {
    Value key = b.floorDiv(chunk, chunks), c = b.mod(chunk, chunks);
    Value position = b.add(firstPosition, key);
    Value visible = b.both(b.notLess(position, firstKey), b.notLess(lastKey, position));
    Value bytes = b.select(visible, b.index(chunkBytes), b.index(0));
    Value from = b.pointer(values, {physical, kvHead, key, b.mul(c, 8)});
    Value at = valueRing.pointer(b, b.add(ringRow, key), c);
    b.copyAsync(at, from, bytes);
  });
}

void AttentionTiles::loadQueries() {
  int64_t chunks = headDim / 8;
  b.loop(b.thread, b.index(rows * chunks), b.index(b.threads), [&](Value chunk) {
    Value row = b.floorDiv(chunk, chunks), c = b.mod(chunk, chunks);
    Value zero = b.constant(b.vec(b.getBF16Type(), 8), 0.0);
    Value loaded =
        b.choose(b.less(row, validRows), zero, [&] {
           auto [token, head] = queryOf(row);
           head = b.add(head, b.mul(split, out.dim(1))); // this split's copy
           Value part = b.loadVector(q, {token, head, b.mul(c, 8)}, 8, b.getF32Type(), chunkBytes);
           return SmallVector<Value>{b.round(part, b.getBF16Type())};
         }).front();
    b.storeAt(queryTile.pointer(b, row, c), loaded, chunkBytes);
  });
}

void AttentionTiles::storePair(Value row, Value column, Value two) {
  if (out.element().isBF16()) {
    Value at = queryTile.elementPointer(b, row, column);
    b.storeAt(at, b.round(two, b.getBF16Type()), 4);
    return;
  }
  b.when(b.less(row, validRows), [&] {
    auto [token, head] = queryOf(row);
    b.storeAt(b.pointer(out, {token, head, column}), two, 8);
  });
}

void AttentionTiles::storeRows() {
  if (!out.element().isBF16())
    return;
  b.barrier();
  int64_t chunks = headDim / 8;
  b.loop(b.thread, b.mul(validRows, chunks), b.index(b.threads), [&](Value chunk) {
    Value row = b.floorDiv(chunk, chunks), c = b.mod(chunk, chunks);
    auto [token, head] = queryOf(row);
    Value at = queryTile.pointer(b, row, c);
    Value part = b.loadAt(at, b.vec(b.getBF16Type(), 8), chunkBytes);
    b.storeAt(b.pointer(out, {token, head, b.mul(c, 8)}), part, chunkBytes);
  });
}

} // namespace gemma::codegen::cuda
