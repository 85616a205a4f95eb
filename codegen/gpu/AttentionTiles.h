// What a block of kernel.attention holds in shared memory, and the copies between there and global
// memory.
#pragma once

#include "codegen/gpu/AttentionQueries.h"
#include "codegen/gpu/KeysOfValues.h"

namespace gemma::codegen::cuda {

/// Heads may have any even number of lanes; those up to a multiple of 16 are zero here, and not
/// stored.
///
/// Queries, rings of tiles of keys and values, probabilities and scores. K and V arrive by
/// asynchronous copies in rings of their own: stored keys with d as row and the 16 keys of a page
/// side by side, values with the key as row.
class AttentionTiles : protected AttentionQueries {
protected:
  static constexpr int64_t page = 16; ///< one step of mma in keys

  AttentionTiles(GpuBuilder &b, kernel::AttentionOp op);

  /// Reads the op's shapes; reports an op that has no form here and returns false.
  bool check();
  /// Takes the shared memory; nothing of it is kept behind the op.
  void allocate();

  /// Copies a tile of K or V to its slot of the ring, as a group of copies; nothing beyond the end.
  void copyTile(Value number, Value ringSlot, bool isKeys);
  /// Q as bf16; rows of padding are zero.
  void loadQueries();
  /// Two neighbouring columns of a row: to where the queries were, to be stored 16 bytes at a time;
  /// f32 directly.
  void storePair(Value row, Value column, Value two);
  /// Stores what storePair left in shared memory, if anything. All threads take part.
  void storeRows();

  View q, keys, values, out;
  int64_t tileKeys = 0, stages = 0;
  int64_t headDim = 0; ///< lanes of a head in global memory
  int64_t lanes = 0;   ///< in shared memory: a multiple of 16, zero beyond the head
  int64_t width = 0;   ///< lanes that are copied together: what heads are a multiple of, at most 8
  int64_t rows = 0;    ///< (query, head) pairs of a block, a multiple of 16
  SharedTile queryTile, keyRing, valueRing, probabilities;
  std::optional<KeysOfValues> computedKeys; ///< where the cache stores values alone
  View scores, factors;
  Value endTile; ///< behind the last tile with a visible key

private:
  /// Whether a lane lies in the head; null if all do.
  Value inHead(Value lane);
  void copyKeys(Value physical, Value there, Value ringPage);
  void copyValues(Value physical, Value firstPosition, Value ringRow);
};

} // namespace gemma::codegen::cuda
