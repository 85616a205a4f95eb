#include "codegen/gpu/AttentionSplits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <numeric>

using namespace mlir;

namespace gemma::codegen::cuda {

AttentionSplits::AttentionSplits(GpuBuilder &b, kernel::AttentionOp op) : AttentionSoftmax(b, op) {
  if (splits == 1)
    return;
  partials = b.viewOf(op, op.getPartials());
  tickets = b.viewOf(op, op.getTickets());
}

void AttentionSplits::allocateForSplits() {
  if (splits == 1)
    return;
  int64_t start = b.mark();
  arrival.emplace(b);
  weights = b.shared({group, splits}, b.getF32Type());
  b.release(start);
}

void AttentionSplits::findRun(Value &firstTile) {
  if (splits == 1)
    return;
  Value tiles = b.sub(endTile, firstTile);
  Value run = b.maximum(b.ceilDiv(tiles, splits), b.index(op.getGpuTileAttr().getRun()));
  // No part has less than one tile, whatever a block without queries computes with.
  auto divideUp = [&](Value a, Value by) -> Value {
    return arith::DivUIOp::create(b, b.sub(b.add(a, by), b.index(1)), by);
  };
  parts = b.maximum(divideUp(tiles, run), b.index(1));
  // As many parts, of nearly equal length.
  run = divideUp(tiles, parts);
  // The last split has the newest key, however few have any.
  number = b.sub(b.add(split, parts), b.index(splits));
  Value begin = b.add(firstTile, arith::MulIOp::create(b, number, run));
  endTile = b.select(b.less(number, b.index(0)), firstTile, b.minimum(endTile, b.add(begin, run)));
  firstTile = b.maximum(begin, firstTile);
}

Value AttentionSplits::part(Value number, Value row, Value column) {
  return b.pointer(partials, {sequence, kvHead, number, row, column});
}

void AttentionSplits::leave(Value row, Value column, Value sums) {
  Value write = b.less(row, validRows);
  if (headDim % 16 != 0) // lanes of padding
    write = b.both(write, b.less(column, b.index(headDim)));
  int64_t bytes = 4 * cast<VectorType>(sums.getType()).getDimSize(0);
  b.when(write, [&] { b.storeAt(part(number, row, column), sums, bytes); });
}

void AttentionSplits::combine(Value maximum, Value sum) {
  // Behind a row's outputs.
  whenFirstOfRow([&](Value row) {
    b.when(b.less(row, validRows), [&] {
      b.storeAt(part(number, row, b.index(headDim)), b.fromElements({maximum, sum}), 8);
    });
  });
  Value ticket = b.add(b.mul(sequence, kvHeads), kvHead);
  b.when(arrival->arrive(tickets, ticket, parts), [&] {
    emitWeights();
    b.barrier();
    storeCombined();
  });
}

/// What each part's outputs are multiplied with: 2^(its maximum − that of all) / the sum of all. A
/// warp a row, a lane a part.
void AttentionSplits::emitWeights() {
  b.loop(b.warp, b.index(group), b.index(b.warps()), [&](Value row) {
    SmallVector<Value> numbers, there, maxima, sums;
    Value highest = b.f32(-INFINITY), total = b.f32(0.0);
    for (int64_t first = 0; first < splits; first += 32) {
      numbers.push_back(b.add(b.lane, first));
      there.push_back(b.less(numbers.back(), parts));
      SmallVector<Value> none = {b.f32(-INFINITY), b.f32(0.0)};
      auto found = b.choose(there.back(), none, [&] {
        Value two =
            b.loadAt(part(numbers.back(), row, b.index(headDim)), b.vec(b.getF32Type(), 2), 8);
        return SmallVector<Value>{b.extract(two, 0), b.extract(two, 1)};
      });
      maxima.push_back(found[0]);
      sums.push_back(found[1]);
      highest = b.combine(kernel::Reduction::Max, highest, found[0]);
    }
    highest = b.reduceGroup(kernel::Reduction::Max, highest, 32);
    SmallVector<Value> factors;
    for (auto [maximum, sum] : llvm::zip_equal(maxima, sums)) {
      factors.push_back(b.exp2(arith::SubFOp::create(b, maximum, highest)));
      total =
          b.combine(kernel::Reduction::Add, total, arith::MulFOp::create(b, sum, factors.back()));
    }
    total = b.reduceGroup(kernel::Reduction::Add, total, 32);
    for (auto [number, factor, isThere] : llvm::zip_equal(numbers, factors, there))
      b.when(isThere, [&] {
        b.storeScalar(weights, {row, number}, arith::DivFOp::create(b, factor, total));
      });
  });
}

void AttentionSplits::storeCombined() {
  // Up to four columns a thread, and the loads of several parts on their way at a time.
  constexpr int64_t unroll = 8;
  int64_t width = std::gcd(headDim, int64_t{4}), chunks = headDim / width;
  Type f32 = b.getF32Type();
  b.loop(b.thread, b.index(group * chunks), b.index(b.threads), [&](Value chunk) {
    Value row = b.floorDiv(chunk, chunks), column = b.mul(b.mod(chunk, chunks), width);
    SmallVector<Value> output = {b.constant(b.vec(f32, width), 0.0)};
    output =
        b.loop(b.index(0), parts, b.index(unroll), output, [&](Value first, ValueRange carried) {
          SmallVector<Value> loaded, factors;
          for (int64_t i = 0; i < unroll; ++i) {
            Value number = b.add(first, i);
            // Beyond the end the last part with a factor of 0.
            Value inside = b.less(number, parts);
            number = b.minimum(number, b.sub(parts, b.index(1)));
            loaded.push_back(b.loadAt(part(number, row, column), b.vec(f32, width), 4 * width));
            factors.push_back(
                b.select(inside, b.loadScalar(weights, {row, number}, f32), b.f32(0.0)));
          }
          Value sum = carried.front();
          for (auto [values, factor] : llvm::zip_equal(loaded, factors))
            sum = arith::AddFOp::create(
                b, sum, arith::MulFOp::create(b, values, b.broadcast(factor, width)));
          return SmallVector<Value>{sum};
        });
    auto [token, head] = queryOf(row);
    b.storeVector(out, {token, head, column}, output.front(), width * out.elementBytes());
  });
}

} // namespace gemma::codegen::cuda
