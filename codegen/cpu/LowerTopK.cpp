// kernel.topk -> one pass over the row that keeps the k largest so far in order. Registers in which
// nothing beats the smallest of them are skipped with one comparison.
#include "codegen/cpu/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace gemma::codegen {
namespace {

class TopKLowering {
public:
  TopKLowering(KernelBuilder &b, kernel::TopKOp op)
      : b(b), op(op), x(b.viewOf(op, op.getX())), outValues(b.viewOf(op, op.getValues())),
        outIds(b.viewOf(op, op.getIds())), k(op.getK()) {}

  void run() {
    auto isMatrix = [](const View &view) {
      return view.type.getRank() == 2 && view.strides().back() == 1;
    };
    if (!isMatrix(x) || !isMatrix(outValues) || !isMatrix(outIds) || k < 1 || k > x.dim(1) ||
        outValues.dim(1) != k || outIds.dim(1) != k) {
      b.fail(op, "expected x [R, V], values and ids [R, k], 1 <= k <= V");
      return;
    }
    SmallVector<MemRefType> blocks = op.getScratchBlocks();
    best = b.scratch(blocks[0]);
    bestIds = b.scratch(blocks[1]);
    compute = best.element();
    row = b.values.lookup(op.getBlock());
    b.when(b.less(row, b.sizes[4]), [&] { emitRow(); });
  }

private:
  void emitRow() {
    // Every slot starts as "nothing": NaN, which anything but NaN beats.
    b.loop(b.index(0), b.index(k), 1, [&](Value slot) {
      b.storeScalar(best, slot, b.constant(compute, NAN));
      memref::StoreOp::create(b, b.integer(b.getI32Type(), 0), bestIds.memory, slot);
    });
    // The first k entries fill the slots, NaN too.
    b.loop(b.index(0), b.index(k), 1, [&](Value i) { insert(i, i); });
    int64_t lanes = b.lanes(compute);
    forChunks(b, k, x.dim(1), lanes, 1, [&](Value start, int64_t width) {
      Value entries = b.loadVector(x, {row, start}, width, compute);
      Value last = b.broadcast(b.loadScalar(best, b.index(k - 1), compute), width);
      Value better = arith::AndIOp::create(
          b, arith::CmpFOp::create(b, arith::CmpFPredicate::UGT, entries, last),
          arith::CmpFOp::create(b, arith::CmpFPredicate::ORD, entries, entries));
      Value any = vector::ReductionOp::create(b, vector::CombiningKind::OR, better);
      b.when(any, [&] {
        b.loop(b.index(0), b.index(width), 1, [&](Value lane) {
          Value i = b.add(start, lane);
          Value entry = b.loadScalar(x, {row, i}, compute);
          Value threshold = b.loadScalar(best, b.index(k - 1), compute);
          b.when(beats(entry, threshold), [&] { insert(i, b.index(k - 1)); });
        });
      });
    });
    b.loop(b.index(0), b.index(k), 1, [&](Value slot) {
      b.storeScalar(outValues, {row, slot}, b.loadScalar(best, slot, compute));
      memref::StoreOp::create(b, memref::LoadOp::create(b, bestIds.memory, slot), outIds.memory,
                              ValueRange{row, slot});
    });
  }

  /// a > other, where NaN is smaller than everything but NaN.
  Value beats(Value a, Value other) {
    return arith::AndIOp::create(b, arith::CmpFOp::create(b, arith::CmpFPredicate::UGT, a, other),
                                 arith::CmpFOp::create(b, arith::CmpFPredicate::ORD, a, a));
  }

  /// Puts entry i where it belongs among the slots before `slot`, the ones after it moving down.
  /// Entries come in the order of their index, so equal ones stay in it.
  void insert(Value i, Value slot) {
    Value entry = b.loadScalar(x, {row, i}, compute);
    auto loop = scf::WhileOp::create(
        b, TypeRange{b.getIndexType()}, ValueRange{slot},
        [&](OpBuilder &, Location, ValueRange state) {
          OpBuilder::InsertionGuard guard(b);
          b.setInsertionPointToEnd(state[0].getParentBlock());
          // Slot 0 has none before it: compare with itself and fail the first condition.
          Value positive = b.less(b.index(0), state[0]);
          Value before = b.maximum(b.sub(state[0], b.index(1)), b.index(0));
          Value more =
              arith::AndIOp::create(b, positive, beats(entry, b.loadScalar(best, before, compute)));
          scf::ConditionOp::create(b, more, state);
        },
        [&](OpBuilder &, Location, ValueRange state) {
          OpBuilder::InsertionGuard guard(b);
          b.setInsertionPointToEnd(state[0].getParentBlock());
          Value before = b.sub(state[0], b.index(1));
          b.storeScalar(best, state[0], b.loadScalar(best, before, compute));
          Value id = memref::LoadOp::create(b, bestIds.memory, before);
          memref::StoreOp::create(b, id, bestIds.memory, state[0]);
          scf::YieldOp::create(b, before);
        });
    Value place = loop.getResult(0);
    b.storeScalar(best, place, entry);
    Value id = arith::IndexCastOp::create(b, b.getI32Type(), i);
    memref::StoreOp::create(b, id, bestIds.memory, place);
  }

  KernelBuilder &b;
  kernel::TopKOp op;
  View x, outValues, outIds, best, bestIds;
  int64_t k;
  Type compute;
  Value row;
};

} // namespace

void lowerTopK(KernelBuilder &b, kernel::TopKOp op) { TopKLowering(b, op).run(); }

} // namespace gemma::codegen
