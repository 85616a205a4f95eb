// Scores against keys that are not stored: k = rope(w ⊙ v), made from a tile of values at a time.
//
// With R(p) the rotation by position p, and positions cut into blocks of 512 as the angle tables
// are, p = 512 b + l:
//
//   ⟨q, R(p) (w ⊙ v)⟩ = ⟨R(-512 b) q, R(l) (w ⊙ v)⟩
//
// so queries are turned back once in 512 positions by the tables' upper half, and keys by their
// lower half as it stands: no angle is added. Lanes that are not rotated take w into the query, and
// their keys are the values themselves, read where they lie. The rotated lanes of a tile's keys lie
// in scratch, row by row, and serve all queries of the block.
#pragma once

#include "codegen/cpu/AttentionProducts.h"

namespace gemma::codegen {

class KeysOfValues {
public:
  using Value = mlir::Value;
  /// The tables' block: positions with a common upper angle.
  static constexpr int64_t blockPositions = 512;

  /// `blocks` are the scratch blocks that the op declares for its key parts.
  KeysOfValues(AttentionBlock &block, llvm::ArrayRef<mlir::MemRefType> blocks);

  /// Folds w into the lanes at rest of all rows' queries.
  void foldQueries();
  /// Turns all rows' queries back by the upper angle of the positions from 512 · `number` on.
  void turnQueries(Value number);
  /// scores[row, j] = ⟨query, key j of the tile⟩ for all rows, in an order of sums that depends on
  /// neither. Keys of codes lack the scale of their position.
  void emitScores();

private:
  /// Makes the rotated lanes of the keys of page `page` of the tile; in decode fetches all lanes
  /// into L1.
  void rotatePage(Value page, Value physicalPage);
  /// Adds query · key to the totals, [rows, keys], over lanes [begin, end) of the query. `turned`:
  /// key lanes lie in `rotated`, that many before; else they are the values'.
  void addProducts(llvm::SmallVector<Value> &totals, int64_t begin, int64_t end,
                   std::optional<int64_t> turned);
  /// Σ over the lanes of each of some vectors, as one vector.
  Value sumsOf(llvm::SmallVector<Value> vectors);
  void scoreKeys(Value firstRow, int64_t count, Value physicalPage, Value firstKey, Value place);
  /// `width` elements of a row's query.
  Value query(Value row, Value d, int64_t width);
  /// A natural register of value `key` of a page.
  Value value(Value physicalPage, Value key, Value d, int64_t width);

  AttentionBlock &block;
  KernelBuilder &b;
  View weight, cosHigh, sinHigh, cosLow, sinLow;
  View queries, rotated; ///< scratch: [rows, D], [tileKeys, 2 active]
  CacheRegisters ofValues;
  int64_t half, active;
  bool pairs; ///< lanes at rest are taken in register order, those of queries lie in it
  // Of the products that are being emitted: rows, keys of a page, their places in the tile.
  llvm::SmallVector<Value> rowList, keyList, placeList;
  Value physical;
};

} // namespace gemma::codegen
