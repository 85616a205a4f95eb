// kernel.attention -> online softmax over tiles of keys (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018), one block = one KV head, or a part of its query heads, and one
// tile of queries of one sequence.
//
// The rows of a block are its (query, head) pairs. Tile by tile of keys, which begin at multiples
// of their size, scores of several rows are computed together, as they share the keys; each row
// that sees a key of the tile updates its maximum and sum; then the outputs of several rows take
// the tile's values together. A row's sums have an order that depends on its own position alone,
// not on the rows beside it: AttentionProducts. Where the cache stores values alone, KeysOfValues
// makes the keys.
#include "codegen/cpu/AttentionProducts.h"
#include "codegen/cpu/KeysOfValues.h"
#include "codegen/cpu/Lowering.h"

#include "codegen/cpu/VectorMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <array>
#include <memory>

using namespace mlir;

namespace gemma::codegen {
namespace {

class AttentionLowering {
public:
  AttentionLowering(KernelBuilder &b, kernel::AttentionOp op)
      : b(b), op(op), block(b, op), out(b.viewOf(op, op.getOut())),
        rowStarts(b.viewOf(op, op.getRowStarts())), seqLens(b.viewOf(op, op.getSeqLens())) {
    block.q = b.viewOf(op, op.getQ());
    block.values = b.viewOf(op, op.getVCache());
    block.slots = b.viewOf(op, op.getSlots());
    block.pageTable = b.viewOf(op, op.getPageTable());
    if (op.getKCache())
      block.keys = b.viewOf(op, op.getKCache());
    for (Value memory : op.getCacheScales())
      scales.push_back(b.viewOf(op, memory));
  }

  void run() {
    if (!check())
      return;
    SmallVector<MemRefType> scratchBlocks = op.getScratchBlocks();
    ArrayRef<MemRefType> blocks = scratchBlocks;
    View strip;
    for (auto [view, type] : llvm::zip(std::array{&block.scores, &block.accumulators, &maxima,
                                                  &sums, &block.corrections, &strip},
                                       blocks.take_front(6)))
      *view = b.scratch(type);
    block.tileKeys = block.scores.dim(1);
    block.tilePages = block.tileKeys / block.page;
    products = std::make_unique<AttentionProducts>(block, strip);
    if (!op.getKCache())
      computedKeys.emplace(block, blocks.drop_front(6));

    Value number = b.values.lookup(op.getBlock());
    auto parts = static_cast<int64_t>(op.getHeadParts().value_or(1));
    block.part = b.mod(number, parts);
    block.kvHead = b.mod(b.floorDiv(number, parts), block.kvHeads);
    findTile(b.floorDiv(number, parts * block.kvHeads));
    b.when(b.less(b.index(0), block.queries), [&] { emitBlock(); });
  }

private:
  bool check() {
    const View &q = block.q, &keys = block.keys, &values = block.values;
    bool ranks = q.type.getRank() == 3 && values.type.getRank() == 4 && out.type.getRank() == 3 &&
                 (!op.getKCache() || keys.type.getRank() == 4);
    if (!ranks || !(block.compute.isF32() || block.compute.isF64())) {
      b.fail(op, "expected q and out [T, heads, D], caches of rank 4 and f32 or f64 accumulation");
      return false;
    }
    block.page = op.getPaging().getPage();
    block.kvHeads = values.dim(1);
    block.headDim = values.dim(3);
    block.group = q.dim(1) / block.kvHeads;
    block.blockHeads = op.getBlockHeads();
    block.queryTile = static_cast<int64_t>(op.getQueryTile());
    block.lanes = std::min(b.lanes(block.compute), block.page);
    block.sums = b.target.registers / 2;
    bool shapes = q.dim(2) == block.headDim && out.dim(1) == q.dim(1) &&
                  out.dim(2) == block.headDim && values.dim(2) == block.page &&
                  block.group * block.kvHeads == q.dim(1) && block.page % block.lanes == 0 &&
                  block.queryTile > 0;
    if (op.getKCache())
      shapes &=
          keys.dim(1) == block.kvHeads && keys.dim(2) == block.headDim && keys.dim(3) == block.page;
    if (!shapes) {
      b.fail(op, "expected K [pages, kvHeads, D, page] and V [pages, kvHeads, page, D] that agree "
                 "with q [T, heads, D]");
      return false;
    }
    return true;
  }

  /// Finds the sequence that the tile-th tile belongs to, its first query and how many it has.
  void findTile(Value tile) {
    int64_t queryTile = block.queryTile;
    Value zero = b.index(0);
    auto found =
        b.loop(zero, b.sizes[1], 1, ValueRange{zero, zero, zero, zero},
               [&](Value row, ValueRange carried) {
                 Value begin = b.loadIndex(rowStarts, row);
                 Value end = b.loadIndex(rowStarts, b.add(row, b.index(1)));
                 Value before = carried[0];
                 Value after = b.add(before, b.ceilDiv(b.sub(end, begin), queryTile));
                 Value here = arith::AndIOp::create(
                     b, arith::CmpIOp::create(b, arith::CmpIPredicate::sle, before, tile),
                     b.less(tile, after));
                 Value first = b.add(begin, b.mul(b.sub(tile, before), queryTile));
                 Value count = b.minimum(b.sub(end, first), b.index(queryTile));
                 auto choose = [&](Value yes, Value no) -> Value {
                   return arith::SelectOp::create(b, here, yes, no);
                 };
                 return SmallVector<Value>{after, choose(row, carried[1]),
                                           choose(first, carried[2]), choose(count, carried[3])};
               });
    block.sequence = found[1];
    block.firstQuery = found[2];
    block.queries = found[3]; // 0 for a surplus block
    block.rows = b.mul(block.queries, block.blockHeads);
  }

  void emitBlock() {
    // Position of the step's token t in the sequence: t + shift.
    Value end = b.loadIndex(rowStarts, b.add(block.sequence, b.index(1)));
    block.shift = b.sub(b.loadIndex(seqLens, block.sequence), end);
    Value lowest = b.constant(block.compute, -INFINITY), zero = b.constant(block.compute, 0.0);
    b.loop(b.index(0), block.rows, 1, [&](Value row) {
      b.storeScalar(maxima, row, lowest);
      b.storeScalar(sums, row, zero);
      forChunks(b, 0, block.headDim, block.lanes, 4, [&](Value d, int64_t width) {
        b.storeVector(block.accumulators, {row, d}, b.constant(b.vec(block.compute, width), 0.0));
      });
    });

    Value firstPosition = b.add(block.firstQuery, block.shift);
    Value lastPosition = b.add(firstPosition, b.sub(block.queries, b.index(1)));
    block.firstPage = b.floorDiv(block.firstVisible(firstPosition), block.page);
    block.endPage = b.add(b.floorDiv(lastPosition, block.page), b.index(1));
    Value firstTile = b.floorDiv(block.firstPage, block.tilePages);
    Value endTile = b.ceilDiv(block.endPage, block.tilePages);
    if (!computedKeys) {
      b.loop(firstTile, endTile, 1, [&](Value tile) {
        enterTile(tile);
        products->emitScores();
        finishTile();
      });
    } else {
      // Tiles in blocks with a common upper angle, for which the queries are turned once.
      computedKeys->foldQueries();
      int64_t tiles = KeysOfValues::blockPositions / block.tileKeys;
      b.loop(b.floorDiv(firstTile, tiles), b.ceilDiv(endTile, tiles), 1, [&](Value number) {
        computedKeys->turnQueries(number);
        Value first = b.maximum(firstTile, b.mul(number, tiles));
        Value last = b.minimum(endTile, b.mul(b.add(number, b.index(1)), tiles));
        b.loop(first, last, 1, [&](Value tile) {
          enterTile(tile);
          computedKeys->emitScores();
          finishTile();
        });
      });
    }
    products->emitQuotients(sums, out);
  }

  void enterTile(Value tile) {
    block.tilePage = b.mul(tile, block.tilePages);
    block.tileStart = b.mul(tile, block.tileKeys);
  }

  void finishTile() {
    b.loop(b.index(0), block.rows, 1, [&](Value row) {
      b.storeScalar(block.corrections, row, b.constant(block.compute, 1.0));
      Value position = block.positionOf(row);
      Value from = block.visibleFrom(position), to = block.visibleTo(position);
      b.when(b.less(from, to), [&] { updateWeights(row, from, to); });
    });
    products->emitOutputs();
  }

  //===--- softmax of one row ---===//

  /// scores[row, j] becomes e^(score_j − new maximum), exactly 0 where a key is not visible, times
  /// the scale of value j if it is stored as codes; corrections[row] the factor for what was summed
  /// under the old maximum.
  void updateWeights(Value row, Value from, Value to) {
    int64_t lanes = block.lanes;
    Type compute = block.compute, floats = b.vec(compute, lanes);
    double scale = op.getScale().convertToDouble();
    Value none = b.constant(floats, 0.0), hidden = b.constant(floats, -INFINITY);
    SmallVector<Attribute> numbers; // compared in the computed type: every instruction set has that
    for (int64_t lane = 0; lane < lanes; ++lane)
      numbers.push_back(b.getFloatAttr(compute, static_cast<double>(lane)));
    Value lane =
        arith::ConstantOp::create(b, DenseElementsAttr::get(cast<VectorType>(floats), numbers));
    // Two loops: a tile's scores, or the constants of several exponentials beside them, are more
    // than the registers hold.
    int64_t step = b.target.registers == 32 ? 2 * lanes : lanes;
    auto forKeys = [&](Value first, llvm::function_ref<Value(Value start, Value before)> body) {
      return b
          .loop(b.index(0), b.index(block.tileKeys), step, first,
                [&](Value begin, ValueRange carried) {
                  Value value = carried.front();
                  for (int64_t i = 0; i < step; i += lanes)
                    value = body(b.add(begin, b.index(i)), value);
                  return SmallVector<Value>{value};
                })
          .front();
    };
    Value highest = forKeys(hidden, [&](Value start, Value before) {
      Value above =
          arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, lane, asFloat(b.sub(from, start)));
      Value below =
          arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, lane, asFloat(b.sub(to, start)));
      Value score = b.loadVector(block.scores, {row, start}, lanes, compute);
      if (scale != 1.0)
        score = arith::MulFOp::create(b, score, b.constant(floats, scale));
      if (!scales.empty())
        score = arith::MulFOp::create(b, score, scalesOf(scales.front(), start));
      score = arith::SelectOp::create(b, arith::AndIOp::create(b, above, below), score, hidden);
      b.storeVector(block.scores, {row, start}, score);
      return larger(before, score);
    });
    Value old = b.loadScalar(maxima, row, compute);
    Value maximum = larger(old, largestLane(highest));
    b.storeScalar(maxima, row, maximum);
    Value total = forKeys(none, [&](Value start, Value before) {
      Value score = b.loadVector(block.scores, {row, start}, lanes, compute);
      // Of a NaN too, which must not be lost.
      Value visible = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, score, hidden);
      // From memory: the constants of the exponential leave it no register.
      Value all = b.broadcast(b.loadScalar(maxima, row, compute), lanes);
      Value weight = emitExpOfNegative(b, arith::SubFOp::create(b, score, all));
      weight = arith::SelectOp::create(b, visible, weight, none);
      Value sum = b.combine(kernel::Reduction::Add, before, weight);
      if (!scales.empty()) // those of others may be NaN
        weight = arith::SelectOp::create(
            b, visible, arith::MulFOp::create(b, weight, scalesOf(scales.back(), start)), none);
      b.storeVector(block.scores, {row, start}, weight);
      return sum;
    });
    Value correction = emitExpOfNegative(b, arith::SubFOp::create(b, old, maximum));
    Value sum = b.mulAdd(b.loadScalar(sums, row, compute), correction,
                         b.reduceLanes(kernel::Reduction::Add, total));
    b.storeScalar(sums, row, sum);
    b.storeScalar(block.corrections, row, correction);
  }

  /// The scales of the tile's keys from `start` on.
  Value scalesOf(const View &view, Value start) {
    Value page = b.floorDiv(start, block.page);
    return b.loadVector(
        view, {block.physicalOfTile(page), block.kvHead, b.sub(start, b.mul(page, block.page))},
        block.lanes, block.compute);
  }

  /// One instruction; a NaN may be lost here, but not in the weights.
  Value larger(Value x, Value y) {
    return arith::SelectOp::create(b, arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, x, y), x,
                                   y);
  }
  Value largestLane(Value vector) {
    for (int64_t width = block.lanes / 2; width > 0; width /= 2) {
      SmallVector<int64_t> low, high;
      for (int64_t i = 0; i < width; ++i) {
        low.push_back(i);
        high.push_back(width + i);
      }
      vector = larger(vector::ShuffleOp::create(b, vector, vector, low),
                      vector::ShuffleOp::create(b, vector, vector, high));
    }
    return b.extract(vector, 0);
  }

  Value asFloat(Value number) {
    Value narrow = arith::IndexCastOp::create(b, b.getI32Type(), number);
    return b.broadcast(arith::SIToFPOp::create(b, block.compute, narrow), block.lanes);
  }

  KernelBuilder &b;
  kernel::AttentionOp op;
  AttentionBlock block;
  View out, rowStarts, seqLens;
  SmallVector<View> scales; ///< of keys if they are stored, and of values, where those are codes
  View maxima, sums;        ///< scratch
  std::unique_ptr<AttentionProducts> products;
  std::optional<KeysOfValues> computedKeys; ///< where the cache stores values alone
};

} // namespace

void lowerAttention(KernelBuilder &b, kernel::AttentionOp op) { AttentionLowering(b, op).run(); }

} // namespace gemma::codegen
