// Keys of a cache that stores values alone: K = rope(w ⊙ V), a tile at a time, in shared memory.
#pragma once

#include "codegen/gpu/SharedTile.h"

#include "dialect/kernel/SharedMemory.h"

namespace gemma::codegen::cuda {

/// Computes the lanes that kernel::computedLanes names. The others of a key are the value's, whose
/// weight the query takes.
class KeysOfValues {
public:
  /// Takes the shared memory of one tile of keys, bf16. Reports an op that it cannot compute keys
  /// for.
  KeysOfValues(GpuBuilder &b, kernel::AttentionOp op, int64_t tileKeys);

  /// Computes the keys at positions firstPosition.. from rows firstRow.. of `values`, whose lanes
  /// beyond the head are zero. All threads take part; barriers before and after are the caller's.
  void emit(const SharedTile &values, mlir::Value firstRow, mlir::Value firstPosition);

  /// What a query's `width` lanes from `lane` on (f32) are multiplied with: 1 where the key has the
  /// weight itself. All lanes of a warp call it together, those of a query side by side.
  mlir::Value weightOfQuery(mlir::Value lane, int64_t width);

  SharedTile tile; ///< row = key; columns as `lanes` says
  kernel::ComputedLanes lanes;

private:
  using Value = mlir::Value;
  Value columnOf(Value lane);
  /// Lanes lane.. of a row of values times weight, f32.
  Value weighted(const SharedTile &values, Value row, Value lane);
  void store(Value key, Value lane, Value elements);
  void emitPlain(const SharedTile &values, Value firstRow);

  GpuBuilder &b;
  int64_t tileKeys, dim = 0, active = 0;
  int64_t width = 0; ///< lanes that are handled together
  View weight, cosHigh, sinHigh, cosLow, sinLow;
};

} // namespace gemma::codegen::cuda
