// Keys of a cache that stores values alone: K = rope(w ⊙ V), a tile at a time, in shared memory.
#pragma once

#include "codegen/gpu/SharedTile.h"

namespace gemma::codegen::cuda {

class KeysOfValues {
public:
  /// Takes the shared memory of one tile of keys [tileKeys, D], bf16. Reports an op that it cannot
  /// compute keys for.
  KeysOfValues(GpuBuilder &b, kernel::AttentionOp op, int64_t tileKeys);

  /// Computes the keys at positions firstPosition.. from rows firstRow.. of `values`. All threads
  /// take part; barriers before and after are the caller's.
  void emit(const SharedTile &values, mlir::Value firstRow, mlir::Value firstPosition);

  SharedTile tile; ///< row = key, as V's

private:
  using Value = mlir::Value;
  /// Row `key`, columns 8·chunk..: value times weight, f32.
  Value weighted(const SharedTile &values, Value row, Value chunk);
  void store(Value key, Value chunk, Value elements);

  GpuBuilder &b;
  int64_t tileKeys, chunks = 0, active = 0, half = 0; ///< chunks of a row; rotated ones; of rot / 2
  View weight, cosHigh, sinHigh, cosLow, sinLow;
};

} // namespace gemma::codegen::cuda
