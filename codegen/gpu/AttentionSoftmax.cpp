#include "codegen/gpu/AttentionSoftmax.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace gemma::codegen::cuda {

static constexpr double log2e = 1.4426950408889634;

void AttentionSoftmax::assignThreads() {
  // As many threads a row as there are, each with pairs of keys.
  threadsOfRow = 1;
  while (2 * threadsOfRow * rows <= b.threads &&
         2 * threadsOfRow <= std::min<int64_t>(32, tileKeys / 2))
    threadsOfRow *= 2;
  // What lanes read at once, 128 bytes, is then 8 columns of four rows or all of one; and what they
  // write of P lies in different chunks.
  bool four = threadsOfRow == 2 || threadsOfRow == 8;
  columnsOfStep = four && tileKeys % (4 * threadsOfRow) == 0 ? 4 : 2;
}

void AttentionSoftmax::findRow() {
  row = b.minimum(b.floorDiv(b.thread, threadsOfRow), b.index(rows - 1));
}

void AttentionSoftmax::emitSoftmax(Value firstKeyOfTile, Value &maximum, Value &sum) {
  Type f32 = b.getF32Type();
  Value member = b.mod(b.thread, threadsOfRow);
  Value position = b.add(firstPosition, b.floorDiv(row, group));
  Value lowest = firstVisible(position);
  // A row of padding sees nothing.
  lowest = b.select(b.less(row, validRows), lowest, b.index(INT32_MAX));
  double scale = op.getScale().convertToDouble() * log2e;

  int64_t steps = tileKeys / columnsOfStep / threadsOfRow;
  SmallVector<Value> columns, masked, visible;
  Value highest = maximum;
  for (int64_t i = 0; i < steps; ++i) {
    Value column = b.mul(b.add(member, i * threadsOfRow), columnsOfStep);
    Value read =
        b.loadAt(b.pointer(scores, {row, column}), b.vec(f32, columnsOfStep), 4 * columnsOfStep);
    columns.push_back(column);
    for (int64_t j = 0; j < columnsOfStep; ++j) {
      Value key = b.add(firstKeyOfTile, b.add(column, j));
      visible.push_back(b.both(b.notLess(key, lowest), b.notLess(position, key)));
      Value score = arith::MulFOp::create(b, b.extract(read, j), b.f32(scale));
      masked.push_back(b.select(visible.back(), score, b.f32(-INFINITY)));
      highest = b.combine(kernel::Reduction::Max, highest, masked.back());
    }
  }
  highest = b.reduceGroup(kernel::Reduction::Max, highest, threadsOfRow);
  // A row that has seen nothing yet: any finite number will do.
  Value nothing = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, highest, b.f32(-INFINITY));
  Value base = b.select(nothing, b.f32(0.0), highest);
  Value factor = b.exp2(arith::SubFOp::create(b, maximum, base));
  Value total = b.f32(0.0);
  Value isMine = b.less(b.floorDiv(b.thread, threadsOfRow), b.index(rows));
  bool allMine = threadsOfRow * rows == b.threads;
  for (int64_t i = 0; i < steps; ++i) {
    SmallVector<Value> written;
    for (int64_t j = columnsOfStep * i; j < columnsOfStep * (i + 1); ++j) {
      Value p = b.exp2(arith::SubFOp::create(b, masked[j], base));
      p = b.select(visible[j], p, b.f32(0.0));
      written.push_back(b.round(p, b.getBF16Type()));
      // What is divided by is the sum of what is multiplied with.
      total = b.combine(kernel::Reduction::Add, total, b.widen(written.back(), f32));
    }
    auto store = [&] {
      Value at = probabilities.elementPointer(b, row, columns[i]);
      b.storeAt(at, b.fromElements(written), 2 * columnsOfStep);
    };
    allMine ? store() : b.when(isMine, store);
  }
  total = b.reduceGroup(kernel::Reduction::Add, total, threadsOfRow);
  sum = b.combine(kernel::Reduction::Add, arith::MulFOp::create(b, sum, factor), total);
  maximum = highest;
  storeFactor(factor);
}

void AttentionSoftmax::storeFactor(Value factor) {
  whenFirstOfRow([&](Value row) { b.storeScalar(factors, row, factor); });
}

void AttentionSoftmax::whenFirstOfRow(function_ref<void(Value)> body) {
  Value first = b.equal(b.mod(b.thread, threadsOfRow), b.index(0));
  if (threadsOfRow * rows != b.threads)
    first = b.both(first, b.less(b.floorDiv(b.thread, threadsOfRow), b.index(rows)));
  b.when(first, [&] { body(row); });
}

} // namespace gemma::codegen::cuda
