// kernel.attention -> online softmax over pages of keys (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018), one block = one KV head and one tile of queries of one sequence.
//
// The rows of a block are its (query, head) pairs. Page by page, scores of several rows are
// computed together, as they share the keys; then each row that sees a key of the page updates its
// maximum, sum and output. A row skips pages in which it sees nothing, so the arithmetic of a row
// depends on its own position alone, not on the tile or the batch it is in. Where the cache stores
// values alone, KeysOfValues makes the keys.
#include "codegen/cpu/KeysOfValues.h"
#include "codegen/cpu/Lowering.h"

#include "codegen/cpu/VectorMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <array>

using namespace mlir;

namespace gemma::codegen {
namespace {

class AttentionLowering {
public:
  AttentionLowering(KernelBuilder &b, kernel::AttentionOp op)
      : b(b), op(op), q(b.viewOf(op, op.getQ())), values(b.viewOf(op, op.getVCache())),
        out(b.viewOf(op, op.getOut())), rowStarts(b.viewOf(op, op.getRowStarts())),
        seqLens(b.viewOf(op, op.getSeqLens())), slots(b.viewOf(op, op.getSlots())),
        pageTable(b.viewOf(op, op.getPageTable())) {
    if (op.getKCache())
      keys = b.viewOf(op, op.getKCache());
  }

  void run() {
    if (!check())
      return;
    SmallVector<MemRefType> scratchBlocks = op.getScratchBlocks();
    ArrayRef<MemRefType> blocks = scratchBlocks;
    for (auto [view, type] : llvm::zip(std::array{&scores, &accumulators, &maxima, &sums, &weights},
                                       blocks.take_front(5)))
      *view = b.scratch(type);
    if (!op.getKCache())
      computedKeys.emplace(b, op, blocks.drop_front(5));

    Value block = b.values.lookup(op.getBlock());
    kvHead = b.mod(block, kvHeads);
    findTile(b.floorDiv(block, kvHeads));
    b.when(b.less(b.index(0), queries), [&] { emitTile(); });
  }

private:
  bool check() {
    compute = op.getAccumulate();
    bool ranks = q.type.getRank() == 3 && values.type.getRank() == 4 && out.type.getRank() == 3 &&
                 (!op.getKCache() || keys.type.getRank() == 4);
    if (!ranks || !(compute.isF32() || compute.isF64())) {
      b.fail(op, "expected q and out [T, heads, D], caches of rank 4 and f32 or f64 accumulation");
      return false;
    }
    page = op.getPaging().getPage();
    kvHeads = values.dim(1);
    headDim = values.dim(3);
    group = q.dim(1) / kvHeads;
    lanes = std::min(b.lanes(compute), page);
    bool shapes = q.dim(2) == headDim && out.dim(1) == q.dim(1) && out.dim(2) == headDim &&
                  values.dim(2) == page && group * kvHeads == q.dim(1) && page % lanes == 0 &&
                  op.getQueryTile() > 0;
    if (op.getKCache())
      shapes &= keys.dim(1) == kvHeads && keys.dim(2) == headDim && keys.dim(3) == page;
    if (!shapes) {
      b.fail(op, "expected K [pages, kvHeads, D, page] and V [pages, kvHeads, page, D] that agree "
                 "with q [T, heads, D]");
      return false;
    }
    return true;
  }

  /// Finds the sequence that the tile-th tile belongs to, its first query and how many it has.
  void findTile(Value tile) {
    int64_t queryTile = op.getQueryTile();
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
    sequence = found[1];
    firstQuery = found[2];
    queries = found[3]; // 0 for a surplus block
  }

  void emitTile() {
    // Position of the step's token t in the sequence: t + shift.
    Value end = b.loadIndex(rowStarts, b.add(sequence, b.index(1)));
    shift = b.sub(b.loadIndex(seqLens, sequence), end);
    Value rows = b.mul(queries, group);
    Value lowest = b.constant(compute, -INFINITY), zero = b.constant(compute, 0.0);
    b.loop(b.index(0), rows, 1, [&](Value row) {
      b.storeScalar(maxima, row, lowest);
      b.storeScalar(sums, row, zero);
      forChunks(b, 0, headDim, lanes, 4, [&](Value d, int64_t width) {
        b.storeVector(accumulators, {row, d}, b.constant(b.vec(compute, width), 0.0));
      });
    });

    Value firstPosition = b.add(firstQuery, shift);
    Value lastPosition = b.add(firstPosition, b.sub(queries, b.index(1)));
    Value firstPage = b.floorDiv(firstVisible(firstPosition), page);
    Value endPage = b.add(b.floorDiv(lastPosition, page), b.index(1));
    auto update = [&](Value physical, Value pageNumber) {
      b.loop(b.index(0), rows, 1,
             [&](Value row) { updateRow(row, physical, b.mul(pageNumber, page)); });
    };
    if (computedKeys)
      emitComputedKeys(firstPage, endPage, rows, update);
    else
      b.loop(firstPage, endPage, 1, [&](Value pageNumber) {
        Value physical = physicalPage(pageNumber);
        emitScores(physical, rows);
        update(physical, pageNumber);
      });

    b.loop(b.index(0), rows, 1, [&](Value row) {
      Value sum = b.loadScalar(sums, row, compute);
      auto [token, head] = queryOf(row);
      forChunks(b, 0, headDim, lanes, 4, [&](Value d, int64_t width) {
        Value total = b.loadVector(accumulators, {row, d}, width, compute);
        b.storeVector(out, {token, head, d},
                      arith::DivFOp::create(b, total, b.broadcast(sum, width)));
      });
    });
  }

  /// The pages in blocks with a common upper angle, for which the queries are turned once.
  void emitComputedKeys(Value firstPage, Value endPage, Value rows,
                        llvm::function_ref<void(Value physical, Value pageNumber)> update) {
    auto eachQuery = [&](llvm::function_ref<void(Value row, KeysOfValues::Load load)> body) {
      b.loop(b.index(0), rows, 1, [&](Value row) {
        auto [token, head] = queryOf(row);
        body(row, [&, token = token, head = head](Value d, int64_t width) {
          return b.loadVector(q, {token, head, d}, width, compute);
        });
      });
    };
    eachQuery([&](Value row, KeysOfValues::Load load) { computedKeys->foldQuery(row, load); });
    int64_t pages = KeysOfValues::blockPositions / page;
    Value endBlock = b.ceilDiv(endPage, pages);
    b.loop(b.floorDiv(firstPage, pages), endBlock, 1, [&](Value block) {
      eachQuery(
          [&](Value row, KeysOfValues::Load load) { computedKeys->turnQuery(row, block, load); });
      Value first = b.maximum(firstPage, b.mul(block, pages));
      Value end = b.minimum(endPage, b.mul(b.add(block, b.index(1)), pages));
      b.loop(first, end, 1, [&](Value pageNumber) {
        Value physical = physicalPage(pageNumber);
        computedKeys->takePage(physical, kvHead, pageNumber);
        b.loop(b.index(0), rows, 1, [&](Value row) { computedKeys->score(row, scores); });
        update(physical, pageNumber);
      });
    });
  }

  /// The first key that the query at this position sees.
  Value firstVisible(Value position) {
    if (op.getWindow() == 0)
      return b.index(0);
    return b.maximum(b.sub(position, b.index(op.getWindow() - 1)), b.index(0));
  }

  Value physicalPage(Value number) {
    int64_t ring = op.getPaging().getRing();
    if (ring == 0)
      return b.loadIndex(pageTable, {sequence, number});
    return b.add(b.mul(b.loadIndex(slots, sequence), ring), b.mod(number, ring));
  }

  std::pair<Value, Value> queryOf(Value row) {
    return {b.add(firstQuery, b.floorDiv(row, group)),
            b.add(b.mul(kvHead, group), b.mod(row, group))};
  }

  //===--- scores = q · K ---===//

  void emitScores(Value physical, Value rows) {
    // As many rows as registers hold, with the page's keys and a broadcast.
    int64_t vectors = page / lanes, together = 4;
    while (together > 1 && together * vectors + vectors + 2 > b.target.registers)
      together /= 2;
    Value row = b.index(0);
    for (int64_t count = together; count > 0; count /= 2) {
      Value end = b.add(row, b.mul(b.floorDiv(b.sub(rows, row), count), count));
      b.loop(row, end, count, [&](Value first) { emitScoresOf(physical, first, count); });
      row = end;
    }
  }

  void emitScoresOf(Value physical, Value firstRow, int64_t count) {
    int64_t vectors = page / lanes;
    SmallVector<std::pair<Value, Value>> rows;
    for (int64_t r = 0; r < count; ++r)
      rows.push_back(queryOf(b.add(firstRow, b.index(r))));
    SmallVector<Value> totals(count * vectors, b.constant(b.vec(compute, lanes), 0.0));
    totals = b.loop(b.index(0), b.index(headDim), 1, totals, [&](Value d, ValueRange carried) {
      SmallVector<Value> next(carried), key;
      for (int64_t v = 0; v < vectors; ++v)
        key.push_back(
            b.loadVector(keys, {physical, kvHead, d, b.index(v * lanes)}, lanes, compute));
      for (int64_t r = 0; r < count; ++r) {
        auto [token, head] = rows[r];
        Value element = b.broadcast(b.loadScalar(q, {token, head, d}, compute), lanes);
        for (int64_t v = 0; v < vectors; ++v)
          next[r * vectors + v] = b.mulAdd(element, key[v], next[r * vectors + v]);
      }
      return next;
    });
    double scale = op.getScale().convertToDouble();
    for (int64_t r = 0; r < count; ++r)
      for (int64_t v = 0; v < vectors; ++v) {
        Value score = totals[r * vectors + v];
        if (scale != 1.0)
          score = arith::MulFOp::create(b, score, b.constant(score.getType(), scale));
        b.storeVector(scores, {b.add(firstRow, b.index(r)), b.index(v * lanes)}, score);
      }
  }

  //===--- softmax and P · V of one row ---===//

  void updateRow(Value row, Value physical, Value pageStart) {
    Value position = b.add(b.add(firstQuery, b.floorDiv(row, group)), shift);
    // Visible keys of the page: [from, to).
    Value from = b.maximum(b.sub(firstVisible(position), pageStart), b.index(0));
    Value to = b.minimum(b.sub(b.add(position, b.index(1)), pageStart), b.index(page));
    b.when(b.less(from, to), [&] {
      Value correction = updateWeights(row, from, to);
      addValues(row, physical, from, to, correction);
    });
  }

  /// weights[j] = e^(score_j − new maximum), exactly 0 where a key is not visible. Returns the
  /// factor for what was summed under the old maximum.
  Value updateWeights(Value row, Value from, Value to) {
    Type floats = b.vec(compute, lanes);
    SmallVector<Value> masked, visible;
    Value highest;
    for (int64_t start = 0; start < page; start += lanes) {
      // A comparison of lane numbers in the computed type: every instruction set has it.
      SmallVector<Attribute> numbers;
      for (int64_t lane = 0; lane < lanes; ++lane)
        numbers.push_back(b.getFloatAttr(compute, start + lane));
      Value lane =
          arith::ConstantOp::create(b, DenseElementsAttr::get(cast<VectorType>(floats), numbers));
      Value above = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, lane, asFloat(from));
      Value below = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, lane, asFloat(to));
      visible.push_back(arith::AndIOp::create(b, above, below));
      Value score = b.loadVector(scores, {row, b.index(start)}, lanes, compute);
      masked.push_back(
          arith::SelectOp::create(b, visible.back(), score, b.constant(floats, -INFINITY)));
      highest = highest ? b.combine(kernel::Reduction::Max, highest, masked.back()) : masked.back();
    }
    Value old = b.loadScalar(maxima, row, compute);
    Value maximum =
        b.combine(kernel::Reduction::Max, old, b.reduceLanes(kernel::Reduction::Max, highest));
    Value total;
    for (auto [i, score] : llvm::enumerate(masked)) {
      Value weight = emitExp(b, arith::SubFOp::create(b, score, b.broadcast(maximum, lanes)));
      weight = arith::SelectOp::create(b, visible[i], weight, b.constant(floats, 0.0));
      b.storeVector(weights, b.index(i * lanes), weight);
      total = total ? b.combine(kernel::Reduction::Add, total, weight) : weight;
    }
    Value correction = emitExp(b, arith::SubFOp::create(b, old, maximum));
    Value sum = b.mulAdd(b.loadScalar(sums, row, compute), correction,
                         b.reduceLanes(kernel::Reduction::Add, total));
    b.storeScalar(maxima, row, maximum);
    b.storeScalar(sums, row, sum);
    return correction;
  }

  Value asFloat(Value number) {
    Value narrow = arith::IndexCastOp::create(b, b.getI32Type(), number);
    return b.broadcast(arith::SIToFPOp::create(b, compute, narrow), lanes);
  }

  /// accumulator = accumulator · correction + Σ_j weights[j] · V[j], over visible keys only: the
  /// memory of others may hold NaN.
  void addValues(Value row, Value physical, Value from, Value to, Value correction) {
    constexpr int64_t block = 8; // registers of the output that stay in place over the keys
    auto addTo = [&](Value d, ArrayRef<int64_t> widths) {
      SmallVector<Value> totals, starts;
      int64_t offset = 0;
      for (int64_t width : widths) {
        starts.push_back(b.add(d, b.index(offset)));
        offset += width;
        Value old = b.loadVector(accumulators, {row, starts.back()}, width, compute);
        totals.push_back(arith::MulFOp::create(b, old, b.broadcast(correction, width)));
      }
      totals = b.loop(from, to, 1, totals, [&](Value key, ValueRange carried) {
        SmallVector<Value> next;
        Value weight = b.loadScalar(weights, key, compute);
        for (auto [i, width] : llvm::enumerate(widths)) {
          Value v = computedKeys
                        ? computedKeys->loadValue(key, starts[i], width)
                        : b.loadVector(values, {physical, kvHead, key, starts[i]}, width, compute);
          next.push_back(b.mulAdd(b.broadcast(weight, width), v, carried[i]));
        }
        return next;
      });
      for (auto [start, total] : llvm::zip_equal(starts, totals))
        b.storeVector(accumulators, {row, start}, total);
    };
    int64_t at = headDim / (block * lanes) * (block * lanes);
    b.loop(b.index(0), b.index(at), block * lanes,
           [&](Value d) { addTo(d, SmallVector<int64_t>(block, lanes)); });
    SmallVector<int64_t> widths;
    int64_t rest = headDim - at;
    for (int64_t width = lanes; width > 0; width /= 2)
      for (; rest >= width; rest -= width)
        widths.push_back(width);
    if (!widths.empty())
      addTo(b.index(at), widths);
  }

  KernelBuilder &b;
  kernel::AttentionOp op;
  View q, keys, values, out, rowStarts, seqLens, slots, pageTable;
  Type compute;
  int64_t page = 0, kvHeads = 0, headDim = 0, group = 0, lanes = 0;
  View scores, accumulators, maxima, sums, weights; ///< scratch
  Value kvHead, sequence, firstQuery, queries;      ///< of the block
  Value shift;                                      ///< token of the step -> position
  std::optional<KeysOfValues> computedKeys;         ///< where the cache stores values alone
};

} // namespace

void lowerAttention(KernelBuilder &b, kernel::AttentionOp op) { AttentionLowering(b, op).run(); }

} // namespace gemma::codegen
