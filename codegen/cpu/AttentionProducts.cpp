#include "codegen/cpu/AttentionProducts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace gemma::codegen {

//===----------------------------------------------------------------------===//
// AttentionBlock
//===----------------------------------------------------------------------===//

Value AttentionBlock::positionOf(Value row) {
  return b.add(b.add(firstQuery, b.floorDiv(row, blockHeads)), shift);
}

Value AttentionBlock::firstVisible(Value position) {
  if (op.getWindow() == 0)
    return b.index(0);
  auto window = static_cast<int64_t>(op.getWindow());
  return b.maximum(b.sub(position, b.index(window - 1)), b.index(0));
}

Value AttentionBlock::visibleFrom(Value position) {
  Value from = b.maximum(b.sub(firstVisible(position), tileStart), b.index(0));
  return b.minimum(from, b.index(tileKeys));
}

Value AttentionBlock::visibleTo(Value position) {
  Value to = b.maximum(b.sub(b.add(position, b.index(1)), tileStart), b.index(0));
  return b.minimum(to, b.index(tileKeys));
}

std::pair<Value, Value> AttentionBlock::queryOf(Value row) {
  Value firstHead = b.add(b.mul(kvHead, group), b.mul(part, blockHeads));
  return {b.add(firstQuery, b.floorDiv(row, blockHeads)), b.add(firstHead, b.mod(row, blockHeads))};
}

Value AttentionBlock::physicalPage(Value number) {
  int64_t ring = op.getPaging().getRing();
  if (ring == 0)
    return b.loadIndex(pageTable, {sequence, number});
  return b.add(b.mul(b.loadIndex(slots, sequence), ring), b.mod(number, ring));
}

Value AttentionBlock::physicalOfTile(Value index) {
  Value number = b.maximum(b.add(tilePage, index), firstPage);
  return physicalPage(b.minimum(number, b.sub(endPage, b.index(1))));
}

int64_t AttentionBlock::mostRows() const {
  int64_t most = 4;
  while (queryTile == 1 && most > blockHeads)
    most /= 2;
  return most;
}

void AttentionBlock::forRows(llvm::function_ref<void(Value, int64_t)> body) {
  // Rows come in multiples of the block's heads: pieces that divide those have no rest.
  Value row = b.index(0);
  for (int64_t count = mostRows(); count > 0; count /= 2) {
    Value end = b.add(row, b.mul(b.floorDiv(b.sub(rows, row), count), count));
    b.loop(row, end, count, [&](Value first) { body(first, count); });
    if (blockHeads % count == 0)
      break;
    row = end;
  }
}

void AttentionBlock::prefetch(const View &cache, ArrayRef<Value> at, int64_t width,
                              unsigned locality) {
  constexpr int64_t lineBits = 512;
  int64_t line = lineBits / cache.element().getIntOrFloatBitWidth();
  for (int64_t i = 0; i < width; i += line) {
    SmallVector<Value> place(at);
    place.back() = b.add(place.back(), b.index(i));
    b.prefetch(cache, place, locality);
  }
}

//===----------------------------------------------------------------------===//
// scores = q · K
//===----------------------------------------------------------------------===//

AttentionProducts::AttentionProducts(AttentionBlock &block, const View &strip)
    : block(block), b(block.b), strip(strip),
      // Without keys that are stored nothing asks how they come.
      ofKeys(b, block.keys.memory ? block.keys : block.values, block.compute, block.page,
             block.lanes),
      ofValues(b, block.values, block.compute, block.headDim, block.lanes),
      ofStrip(b, strip, block.compute, block.headDim, block.lanes) {}

void AttentionProducts::emitScores() {
  block.forRows([&](Value first, int64_t count) { emitScoresOf(first, count); });
}

void AttentionProducts::emitScoresOf(Value firstRow, int64_t count) {
  SmallVector<std::pair<Value, Value>> queries;
  for (int64_t r = 0; r < count; ++r)
    queries.push_back(block.queryOf(b.add(firstRow, b.index(r))));
  // Some registers of a page's keys, or several pages.
  int64_t ofPage = block.page / block.lanes;
  int64_t registers = std::max<int64_t>(ofKeys.paired() ? 2 : 1, block.sums / count), pages = 1;
  if (registers > ofPage)
    pages = std::min(registers / ofPage, block.tilePages);
  registers = std::min(registers, ofPage);
  Value first = b.maximum(b.sub(block.firstPage, block.tilePage), b.index(0));
  Value end = b.minimum(b.sub(block.endPage, block.tilePage), b.index(block.tilePages));
  first = b.mul(b.floorDiv(first, pages), pages);
  b.loop(first, end, pages, [&](Value page) {
    SmallVector<Value> numbers, places, next;
    for (int64_t i = 0; i < pages; ++i) {
      numbers.push_back(b.add(page, b.index(i)));
      places.push_back(block.physicalOfTile(numbers.back()));
      next.push_back(block.physicalOfTile(b.add(numbers.back(), b.index(block.tilePages))));
    }
    for (int64_t start = 0; start < ofPage; start += registers)
      emitScoreTile(queries, firstRow, numbers, places, next, start * block.lanes, registers);
  });
}

void AttentionProducts::emitScoreTile(ArrayRef<std::pair<Value, Value>> queries, Value firstRow,
                                      ArrayRef<Value> pages, ArrayRef<Value> places,
                                      ArrayRef<Value> nextPlaces, int64_t start,
                                      int64_t registers) {
  int64_t lanes = block.lanes;
  size_t width = places.size() * static_cast<size_t>(registers);
  SmallVector<Value> totals(queries.size() * width, b.constant(b.vec(block.compute, lanes), 0.0));
  totals = b.loop(b.index(0), b.index(block.headDim), 1, totals, [&](Value d, ValueRange carried) {
    SmallVector<Value> next(carried), key;
    for (Value place : places)
      for (int64_t i = 0; i < registers; ++i) {
        SmallVector<Value> at = {place, block.kvHead, d, b.index(start + i * lanes)};
        if (!ofKeys.paired())
          key.push_back(b.loadVector(block.keys, at, lanes, block.compute));
        else if (i % 2 == 0)
          llvm::append_range(key, ofKeys.loadPair(at));
      }
    if (start == 0)
      for (Value place : nextPlaces)
        prefetch(block.keys, {place, block.kvHead, d, b.index(0)}, 1);
    for (auto [r, query] : llvm::enumerate(queries)) {
      Value element = b.loadScalar(block.q, {query.first, query.second, d}, block.compute);
      Value all = b.broadcast(element, lanes);
      for (size_t i = 0; i < width; ++i)
        next[r * width + i] = b.mulAdd(all, key[i], next[r * width + i]);
    }
    return next;
  });
  for (size_t r = 0; r < queries.size(); ++r)
    for (size_t i = 0; i < width; ++i) {
      Value row = b.add(firstRow, b.index(static_cast<int64_t>(r)));
      auto inPage = static_cast<int64_t>(i) % registers;
      Value total = totals[r * width + i];
      if (ofKeys.paired()) {
        size_t even = r * width + i / 2 * 2;
        total = ofKeys.toNatural({totals[even], totals[even + 1]})[i % 2];
      }
      Value page = pages[i / static_cast<size_t>(registers)];
      Value key = b.add(b.mul(page, block.page), b.index(start + inPage * lanes));
      b.storeVector(block.scores, {row, key}, total);
    }
}

//===----------------------------------------------------------------------===//
// output = weights · V
//===----------------------------------------------------------------------===//

/// Rows that add up the same keys, in [allFrom, allTo), and maybe others of [from, to).
struct AttentionProducts::RowTile {
  SmallVector<Value> rows;
  bool alike;                                ///< rows of one token see the same keys
  SmallVector<std::pair<Value, Value>> seen; ///< by each row
  Value from, to, allFrom, allTo;            ///< within the tile of keys
};

AttentionProducts::RowTile AttentionProducts::tileOf(Value firstRow, int64_t count) {
  RowTile tile;
  for (int64_t r = 0; r < count; ++r)
    tile.rows.push_back(b.add(firstRow, b.index(r)));
  tile.alike = block.queryTile == 1 || count == 1;
  for (Value row : tile.rows) {
    if (tile.alike && !tile.seen.empty()) {
      tile.seen.push_back(tile.seen.front());
      continue;
    }
    Value position = block.positionOf(row);
    tile.seen.emplace_back(block.visibleFrom(position), block.visibleTo(position));
  }
  tile.from = tile.allFrom = tile.seen.front().first;
  tile.to = tile.allTo = tile.seen.back().second;
  if (!tile.alike) {
    tile.allFrom = b.minimum(tile.seen.back().first, tile.to);
    tile.allTo = b.maximum(tile.seen.front().second, tile.allFrom);
  }
  return tile;
}

static int64_t columnsOf(ArrayRef<int64_t> widths) {
  return std::accumulate(widths.begin(), widths.end(), int64_t(0));
}

void AttentionProducts::emitOutputs() {
  int64_t lanes = block.lanes, most = block.mostRows();
  // With one piece of rows values are used once, where they lie. For more they are copied into
  // scratch, a strip of columns at a time: their lines in the cache, a power of two apart, would
  // push each other out of L1 before the next piece.
  bool direct = block.queryTile == 1 && block.blockHeads == most;
  // A strip's rows are short enough for L1 to keep them all.
  int64_t registers = std::min<int64_t>(direct ? block.sums / most : strip.dim(1) / lanes, 8);
  if (ofValues.paired())
    registers = std::max<int64_t>(registers / 2 * 2, 2);
  int64_t pieces = llvm::divideCeil(block.blockHeads, most);
  int64_t step = registers * lanes, parts = block.headDim / step, at = parts * step;
  auto add = [&](Value d, ArrayRef<int64_t> widths) {
    if (direct)
      return block.forRows([&](Value first, int64_t count) { addDirect(d, widths, first, count); });
    fillStrip(d, widths);
    int64_t columns = columnsOf(widths);
    auto together = static_cast<size_t>(block.sums / most);
    int64_t rounds = llvm::divideCeil(static_cast<int64_t>(widths.size()), block.sums / most);
    block.forRows([&](Value first, int64_t count) {
      int64_t column = 0;
      for (size_t i = 0; i < widths.size(); i += together) {
        ArrayRef<int64_t> part = widths.slice(i, std::min(together, widths.size() - i));
        // Not where the strip is filled: so many fetches at once would exhaust the fill buffers.
        auto eachKey = [&](Value key) {
          Value round = b.add(b.mul(b.floorDiv(first, most), rounds),
                              b.index(static_cast<int64_t>(i / together)));
          prefetchValues(round, pieces * rounds, key, d, columns);
        };
        addStrip(b.add(d, b.index(column)), column, part, first, count, eachKey);
        column += columnsOf(part);
      }
    });
  };
  b.loop(b.index(0), b.index(parts), 1, [&](Value part) {
    add(b.mul(part, step), SmallVector<int64_t>(static_cast<size_t>(registers), lanes));
  });
  SmallVector<int64_t> widths;
  int64_t rest = block.headDim - at;
  for (int64_t width = lanes; width > 0; width /= 2)
    for (; rest >= width; rest -= width)
      widths.push_back(width);
  if (!widths.empty())
    add(b.index(at), widths);
}

SmallVector<Value> AttentionProducts::loadValues(CacheRegisters &from, ArrayRef<Value> row, Value d,
                                                 ArrayRef<int64_t> widths) {
  SmallVector<Value> loaded;
  int64_t offset = 0;
  for (auto [i, width] : llvm::enumerate(widths)) {
    SmallVector<Value> at(row);
    at.push_back(b.add(d, b.index(offset)));
    offset += width;
    if (!from.paired())
      loaded.push_back(b.loadVector(from.memory(), at, width, block.compute));
    else if (i % 2 == 0)
      llvm::append_range(loaded, from.loadPair(at));
  }
  return loaded;
}

/// Calls `body(page, key of the page, key of the tile)` in loops over pages and keys of [from, to),
/// which pass sums on.
SmallVector<Value> AttentionProducts::overKeys(Value from, Value to, ValueRange carried,
                                               KeyBody body) {
  Value page = b.floorDiv(from, block.page), endPage = b.ceilDiv(to, block.page);
  return b.loop(page, endPage, 1, carried, [&](Value index, ValueRange sums) {
    Value physical = block.physicalOfTile(index), first = b.mul(index, block.page);
    auto clamp = [&](Value key) {
      return b.minimum(b.maximum(b.sub(key, first), b.index(0)), b.index(block.page));
    };
    return b.loop(clamp(from), clamp(to), 1, sums, [&](Value key, ValueRange current) {
      return body(physical, key, b.add(first, key), current);
    });
  });
}

void AttentionProducts::fillStrip(Value d, ArrayRef<int64_t> widths) {
  Value last = b.sub(block.rows, b.index(1));
  Value from = block.visibleFrom(block.positionOf(b.index(0)));
  Value to = block.visibleTo(block.positionOf(last));
  Type stored = cast<MemRefType>(strip.memory.getType()).getElementType();
  overKeys(from, to, ValueRange(), [&](Value physical, Value key, Value place, ValueRange) {
    int64_t column = 0;
    for (size_t i = 0; i < widths.size();) {
      // As it is stored; two registers of the computed type are one or less.
      bool two = i + 1 < widths.size() && widths[i] == widths[i + 1];
      int64_t width = two ? 2 * widths[i] : widths[i];
      SmallVector<Value> at = {physical, block.kvHead, key, b.add(d, b.index(column))};
      Value part = vector::LoadOp::create(b, b.vec(stored, width), block.values.memory, at);
      vector::StoreOp::create(b, part, strip.memory, ValueRange{place, b.index(column)});
      column += width;
      i += two ? 2 : 1;
    }
    return SmallVector<Value>();
  });
}

/// sums + weight of each row · values, for the rows that see key `place` of the tile (`edge`), or
/// all.
SmallVector<Value> AttentionProducts::addKey(const RowTile &tile, Value place, ValueRange values,
                                             ValueRange sums, bool edge) {
  SmallVector<Value> next;
  for (auto [row, seen] : llvm::zip_equal(tile.rows, tile.seen)) {
    Value weight = b.loadScalar(block.scores, {row, place}, block.compute), sees;
    if (edge)
      sees = arith::AndIOp::create(
          b, arith::CmpIOp::create(b, arith::CmpIPredicate::sle, seen.first, place),
          b.less(place, seen.second));
    for (Value value : values) {
      Value old = sums[next.size()];
      int64_t width = cast<VectorType>(value.getType()).getDimSize(0);
      Value sum = b.mulAdd(b.broadcast(weight, width), value, old);
      next.push_back(edge ? Value(arith::SelectOp::create(b, sees, sum, old)) : sum);
    }
  }
  return next;
}

/// The outputs of a tile's rows from column `d` on, times their corrections.
SmallVector<Value> AttentionProducts::loadOutputs(const RowTile &tile, Value d,
                                                  ArrayRef<int64_t> widths) {
  SmallVector<Value> totals;
  for (Value row : tile.rows) {
    Value correction = b.loadScalar(block.corrections, row, block.compute);
    int64_t offset = 0;
    for (int64_t width : widths) {
      Value old =
          b.loadVector(block.accumulators, {row, b.add(d, b.index(offset))}, width, block.compute);
      totals.push_back(arith::MulFOp::create(b, old, b.broadcast(correction, width)));
      offset += width;
    }
  }
  return totals;
}

void AttentionProducts::storeOutputs(const RowTile &tile, Value d, ArrayRef<int64_t> widths,
                                     ValueRange totals) {
  size_t at = 0;
  for (Value row : tile.rows) {
    int64_t offset = 0;
    for (int64_t width : widths) {
      b.storeVector(block.accumulators, {row, b.add(d, b.index(offset))}, totals[at++]);
      offset += width;
    }
  }
}

void AttentionProducts::addDirect(Value d, ArrayRef<int64_t> widths, Value firstRow,
                                  int64_t count) {
  RowTile tile = tileOf(firstRow, count);
  SmallVector<Value> totals = loadOutputs(tile, d, widths);
  totals = overKeys(
      tile.from, tile.to, totals, [&](Value physical, Value key, Value place, ValueRange sums) {
        prefetchValues(b.index(0), 1, place, d, columnsOf(widths));
        return addKey(tile, place, loadValues(ofValues, {physical, block.kvHead, key}, d, widths),
                      sums, /*edge=*/false);
      });
  storeOutputs(tile, d, widths, totals);
}

void AttentionProducts::addStrip(Value d, int64_t column, ArrayRef<int64_t> widths, Value firstRow,
                                 int64_t count, llvm::function_ref<void(Value)> eachKey) {
  RowTile tile = tileOf(firstRow, count);
  SmallVector<Value> totals = loadOutputs(tile, d, widths);
  auto add = [&](Value from, Value to, bool edge) {
    totals = b.loop(from, to, 1, totals, [&](Value place, ValueRange sums) {
      eachKey(place);
      SmallVector<Value> values = loadValues(ofStrip, {place}, b.index(column), widths);
      return addKey(tile, place, values, sums, edge);
    });
  };
  if (!tile.alike)
    add(tile.from, tile.allFrom, /*edge=*/true);
  add(tile.allFrom, tile.allTo, /*edge=*/false);
  if (!tile.alike)
    add(tile.allTo, tile.to, /*edge=*/true);
  storeOutputs(tile, d, widths, totals);
}

/// Fetches into L2 in decode, which reads each tile once.
void AttentionProducts::prefetch(const View &cache, ArrayRef<Value> at, int64_t width) {
  if (block.queryTile == 1)
    block.prefetch(cache, at, width, /*locality=*/2);
}

/// While `columns` columns from `d` on are summed, in `rounds` rounds over the tile's keys: fetches
/// the same share of the next tile's values, in the order of memory. Strided rows would defeat the
/// hardware's prefetcher.
void AttentionProducts::prefetchValues(Value round, int64_t rounds, Value keyOfTile, Value d,
                                       int64_t columns) {
  if (block.queryTile != 1)
    return;
  int64_t ofPage = block.page * block.headDim;
  int64_t pages = std::max<int64_t>(1, columns * block.tileKeys / ofPage);
  int64_t width = columns / (pages * rounds); // of each page for a key
  Value begin = b.mul(d, block.tileKeys);
  Value offset = b.mul(b.add(b.mul(round, block.tileKeys), keyOfTile), width);
  for (int64_t i = 0; i < pages; ++i) {
    Value page = b.add(b.floorDiv(begin, ofPage), b.index(block.tilePages + i));
    Value element = b.add(b.mod(begin, ofPage), offset);
    prefetch(block.values, {block.physicalOfTile(page), block.kvHead, b.index(0), element}, width);
  }
}

void AttentionProducts::emitQuotients(const View &sums, const View &out) {
  int64_t lanes = block.lanes;
  b.loop(b.index(0), block.rows, 1, [&](Value row) {
    Value sum = b.loadScalar(sums, row, block.compute);
    auto [token, head] = block.queryOf(row);
    auto quotient = [&](Value d, int64_t width) -> Value {
      Value total = b.loadVector(block.accumulators, {row, d}, width, block.compute);
      return arith::DivFOp::create(b, total, b.broadcast(sum, width));
    };
    if (!ofValues.paired())
      return forChunks(b, 0, block.headDim, lanes, 4, [&](Value d, int64_t width) {
        b.storeVector(out, {token, head, d}, quotient(d, width));
      });
    b.loop(b.index(0), b.index(block.headDim), 2 * lanes, [&](Value d) {
      Value second = b.add(d, b.index(lanes));
      auto natural = ofValues.toNatural({quotient(d, lanes), quotient(second, lanes)});
      b.storeVector(out, {token, head, d}, natural[0]);
      b.storeVector(out, {token, head, second}, natural[1]);
    });
  });
}

} // namespace gemma::codegen
