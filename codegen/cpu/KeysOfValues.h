// Scores against keys that are not stored: k = rope(w ⊙ v), made from a page of values at a time.
//
// With R(p) the rotation by position p, and positions cut into blocks of 512 as the angle tables
// are, p = 512 b + l:
//
//   ⟨q, R(p) (w ⊙ v)⟩ = ⟨R(-512 b) q, R(l) (w ⊙ v)⟩
//
// so queries are turned back once in 512 positions by the tables' upper half, and keys by their
// lower half as it stands: no angle is added. Lanes that are not rotated take w into the query, and
// their keys are the values themselves. The rotated lanes of a page's keys lie in scratch, row by
// row, and serve all queries of the block; so do its values, widened, if the cache has a smaller
// type.
#pragma once

#include "codegen/cpu/KernelBuilder.h"

namespace gemma::codegen {

class KeysOfValues {
public:
  using Value = mlir::Value;
  /// The tables' block: positions with a common upper angle.
  static constexpr int64_t blockPositions = 512;

  /// `op` has key parts; `blocks` are the scratch blocks that it declares for them.
  KeysOfValues(KernelBuilder &b, kernel::AttentionOp op, llvm::ArrayRef<mlir::MemRefType> blocks);

  /// Query `row`, element d of which is loaded by `load(d, width)`: folds w into the lanes at rest.
  using Load = llvm::function_ref<Value(Value d, int64_t width)>;
  void foldQuery(Value row, Load load);
  /// Turns query `row` back by the upper angle of the block.
  void turnQuery(Value row, Value block, Load load);
  /// Makes the page at `physical` the one that the next two work on: its keys' rotated lanes, and
  /// its values in the computed type. `number` is the page's number in the sequence.
  void takePage(Value physical, Value kvHead, Value number);
  /// scores[row, j] = scale · ⟨query, key j⟩, in an order of sums that depends on neither.
  void score(Value row, const View &scores);
  /// `width` elements of the page's value `key`.
  Value loadValue(Value key, Value d, int64_t width);

private:
  /// Adds query · key to one total a key, over lanes [begin, end) of the query, for the keys from
  /// `firstKey` on; key j's lanes are given by `load(j, d, width)`.
  using LoadKey = llvm::function_ref<Value(Value key, Value d, int64_t width)>;
  void addProducts(llvm::SmallVector<Value> &totals, Value row, int64_t firstKey, int64_t begin,
                   int64_t end, LoadKey load);
  /// Σ over the lanes of each of L vectors of L lanes, as one vector.
  Value sumsOf(llvm::SmallVector<Value> vectors);

  KernelBuilder &b;
  kernel::AttentionOp op;
  mlir::Type compute;
  View values, weight, cosHigh, sinHigh, cosLow, sinLow;
  View queries, rotated, widened; ///< scratch: [rows, D], [page, 2 active], [page, D] if needed
  Value physical, kvHead;         ///< of the page
  int64_t dim, page, half, active, lanes;
  bool widens; ///< the cache has a smaller type than what is computed with
};

} // namespace gemma::codegen
