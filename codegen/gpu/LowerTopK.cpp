// kernel.topk -> k rounds over the row: each finds the largest entry that comes after the one found
// before it. Entries are compared as 64-bit keys, value first, then the smaller index, so that they
// are all different and the result does not depend on how threads share the row.
#include "codegen/gpu/EntryKey.h"
#include "codegen/gpu/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace gemma::codegen::cuda {
namespace {

class TopKLowering {
public:
  TopKLowering(GpuBuilder &b, kernel::TopKOp op)
      : b(b), op(op), x(b.viewOf(op, op.getX())), outValues(b.viewOf(op, op.getValues())),
        outIds(b.viewOf(op, op.getIds())) {
    if (op.getBest())
      keys = b.viewOf(op, op.getBest());
  }

  void run() {
    if (x.element().isF64()) {
      b.fail(op, "holds f64, which GPU kernels do not compute with");
      return;
    }
    i64 = b.getI64Type();
    int64_t start = b.mark();
    slots = b.shared({32}, i64);
    b.release(start);
    row = b.values.lookup(op.getBlock());
    b.when(b.less(row, b.sizes[4]), [&] { emitRow(); });
  }

private:
  void emitRow() {
    Value last = b.integer(i64, -1); // every key is smaller, as an unsigned number
    b.loop(b.index(0), b.index(op.getK()), b.index(1), last, [&](Value round, ValueRange carried) {
      Value best = findLargestBelow(carried.front());
      b.when(b.equal(b.thread, b.index(0)), [&] {
        Value id = columnOfKey(b, best);
        Value value = b.loadScalar(x, {row, id}, b.getF32Type());
        b.storeScalar(outValues, {row, round}, value);
        b.storeAt(b.pointer(outIds, {row, round}), id, 4);
      });
      return SmallVector<Value>{best};
    });
  }

  /// The largest key of the row below `limit`; the same in all threads. 0 if there is none, which
  /// k ≤ V excludes.
  Value findLargestBelow(Value limit) {
    return largestOfBlock(op.getBest() ? largestOfTiles() : largestOfShare(limit));
  }

  /// The largest key of this thread's share of the tiles.
  Value largestOfTiles() {
    return b
        .loop(b.thread, b.index(keys.dim(1)), b.index(b.threads), b.integer(i64, 0),
              [&](Value tile, ValueRange carried) {
                Value key = b.loadAt(b.pointer(keys, {row, tile, b.index(0)}), i64, 8);
                return SmallVector<Value>{arith::MaxUIOp::create(b, carried.front(), key)};
              })
        .front();
  }

  /// The largest key below `limit` of this thread's share of the row.
  Value largestOfShare(Value limit) {
    int64_t columns = x.dim(1);
    // 16 bytes at a time, if rows begin at multiples of that.
    int64_t width = 16 / x.elementBytes();
    while (columns % width != 0)
      width /= 2;
    return b
        .loop(b.mul(b.thread, width), b.index(columns), b.index(width * b.threads),
              b.integer(i64, 0),
              [&](Value start, ValueRange carried) {
                Value entries =
                    b.loadVector(x, {row, start}, width, b.getF32Type(), width * x.elementBytes());
                Value best = carried.front();
                for (int64_t i = 0; i < width; ++i) {
                  Value key = entryKey(b, b.extract(entries, i), b.add(start, i));
                  Value below = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, key, limit);
                  key = b.select(below, key, b.integer(i64, 0));
                  best = arith::MaxUIOp::create(b, best, key);
                }
                return SmallVector<Value>{best};
              })
        .front();
  }

  /// The largest of all threads' keys, in all of them.
  Value largestOfBlock(Value best) {
    best = largestKeyOf(b, best, 32);
    if (b.warps() == 1)
      return best;
    b.barrier(); // the slots may still be read in the round before
    b.when(b.equal(b.lane, b.index(0)), [&] { b.storeAt(b.pointer(slots, b.warp), best, 8); });
    b.barrier();
    best = b.choose(b.less(b.lane, b.index(b.warps())), b.integer(i64, 0), [&] {
              return SmallVector<Value>{b.loadAt(b.pointer(slots, b.lane), i64, 8)};
            }).front();
    return largestKeyOf(b, best, 32);
  }

  GpuBuilder &b;
  kernel::TopKOp op;
  View x, outValues, outIds, keys, slots;
  Type i64;
  Value row;
};

} // namespace

void lowerTopK(GpuBuilder &b, kernel::TopKOp op) { TopKLowering(b, op).run(); }

} // namespace gemma::codegen::cuda
