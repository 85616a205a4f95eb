// The two products of an attention block, scores = q · K and output = weights · V, in register
// tiles of rows and registers. A row's sums have the same order in every tile.
#pragma once

#include "codegen/cpu/CacheRegisters.h"

namespace gemma::codegen {

/// What the parts of an attention kernel know about its op and its current tile of keys.
struct AttentionBlock {
  using Value = mlir::Value;

  AttentionBlock(KernelBuilder &b, kernel::AttentionOp op)
      : b(b), op(op), compute(op.getAccumulate()) {}

  KernelBuilder &b;
  kernel::AttentionOp op;
  mlir::Type compute;
  View q, keys, values, pageTable, slots; ///< keys: of no memory if they are not stored
  View scores, accumulators, corrections; ///< scratch: [rows, tileKeys], [rows, D], [rows]
  int64_t page = 0, kvHeads = 0, headDim = 0, group = 0, lanes = 0;
  int64_t tilePages = 0, tileKeys = 0; ///< pages and keys that the softmax takes at once
  int64_t blockHeads = 0, queryTile = 0;
  int64_t sums = 0; ///< registers that add up side by side: as many as hide an addition's latency

  Value part, kvHead, sequence, firstQuery, queries; ///< of the block
  Value rows;                                        ///< queries · blockHeads
  Value shift;                                       ///< token of the step -> position
  Value firstPage, endPage;                          ///< that hold a visible key
  Value tilePage, tileStart; ///< the tile's first page, and its first position

  /// Positions that some row sees are [from, to) within the tile.
  Value positionOf(Value row);
  Value visibleFrom(Value position);
  Value visibleTo(Value position);
  /// The first key that a query at this position sees.
  Value firstVisible(Value position);
  /// The token of the step and the query head of a row.
  std::pair<Value, Value> queryOf(Value row);
  /// The place of a page of the sequence.
  Value physicalPage(Value number);
  /// That of page `index` of the tile, or of the nearest one that holds a visible key.
  Value physicalOfTile(Value index);

  /// Calls `body(firstRow, count)` for pieces of all rows: as many rows as registers are good for,
  /// then fewer.
  void forRows(llvm::function_ref<void(Value firstRow, int64_t count)> body);
  int64_t mostRows() const;

  /// Fetches the lines of `width` elements of a cache from `at` on, into L1 (3) or L2 (2).
  void prefetch(const View &cache, llvm::ArrayRef<Value> at, int64_t width, unsigned locality);
};

class AttentionProducts {
public:
  using Value = mlir::Value;

  /// `strip`: scratch [tileKeys, columns] for values that are being used.
  AttentionProducts(AttentionBlock &block, const View &strip);

  /// scores[row, j] = Σ_d q · key j of the tile, for all rows.
  void emitScores();
  /// accumulators[row] = accumulators[row] · corrections[row] + Σ_j scores[row, j] · value j over
  /// the keys that the row sees: the memory of others may hold NaN.
  void emitOutputs();
  /// out[row] = accumulators[row] / sums[row], in natural order.
  void emitQuotients(const View &sums, const View &out);

private:
  void emitScoresOf(Value firstRow, int64_t count);
  void emitScoreTile(llvm::ArrayRef<std::pair<Value, Value>> queries, Value firstRow,
                     llvm::ArrayRef<Value> pages, llvm::ArrayRef<Value> places,
                     llvm::ArrayRef<Value> nextPlaces, int64_t start, int64_t registers);
  struct RowTile;
  using KeyBody = llvm::function_ref<llvm::SmallVector<Value>(
      Value page, Value keyOfPage, Value keyOfTile, mlir::ValueRange sums)>;
  RowTile tileOf(Value firstRow, int64_t count);
  llvm::SmallVector<Value> overKeys(Value from, Value to, mlir::ValueRange carried, KeyBody body);
  /// Registers of these widths from column `d` of a row of values, in register order.
  llvm::SmallVector<Value> loadValues(CacheRegisters &from, llvm::ArrayRef<Value> row, Value d,
                                      llvm::ArrayRef<int64_t> widths);
  llvm::SmallVector<Value> loadOutputs(const RowTile &tile, Value d,
                                       llvm::ArrayRef<int64_t> widths);
  void storeOutputs(const RowTile &tile, Value d, llvm::ArrayRef<int64_t> widths,
                    mlir::ValueRange totals);
  llvm::SmallVector<Value> addKey(const RowTile &tile, Value place, mlir::ValueRange values,
                                  mlir::ValueRange sums, bool edge);
  void fillStrip(Value d, llvm::ArrayRef<int64_t> widths);
  /// accumulators[row, d..] of some rows, from values where they lie, or from columns of the strip.
  void addDirect(Value d, llvm::ArrayRef<int64_t> widths, Value firstRow, int64_t count);
  /// `eachKey` is told of each key of the tile that is added.
  void addStrip(Value d, int64_t column, llvm::ArrayRef<int64_t> widths, Value firstRow,
                int64_t count, llvm::function_ref<void(Value key)> eachKey);
  void prefetch(const View &cache, llvm::ArrayRef<Value> at, int64_t width);
  void prefetchValues(Value round, int64_t rounds, Value keyOfTile, Value d, int64_t columns);

  AttentionBlock &block;
  KernelBuilder &b;
  View strip;
  CacheRegisters ofKeys, ofValues, ofStrip;
};

} // namespace gemma::codegen
