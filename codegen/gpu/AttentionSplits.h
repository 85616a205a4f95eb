// Blocks of kernel.attention that share a sequence's keys: which tiles a block has, and how the
// last one combines what all of them found.
#pragma once

#include "codegen/gpu/AttentionSoftmax.h"
#include "codegen/gpu/LastArrival.h"

namespace gemma::codegen::cuda {

class AttentionSplits : protected AttentionSoftmax {
protected:
  AttentionSplits(GpuBuilder &b, kernel::AttentionOp op);

  /// Takes shared memory for when a block is through with its keys: in the place of their tiles.
  void allocateForSplits();
  /// Narrows the tiles from `firstTile` to `endTile` to this block's; none for a block that is too
  /// many.
  void findRun(Value &firstTile);
  /// Whether another block has a part of this sequence's keys.
  Value isShared() { return b.less(b.index(1), parts); }
  /// Leaves two or four neighbouring columns of a row, not yet divided by the row's sum, for the
  /// last block.
  void leave(Value row, Value column, Value sums);
  /// Leaves the rows' maxima and sums; then the last block stores the outputs. All threads take
  /// part.
  void combine(Value maximum, Value sum);

private:
  Value part(Value number, Value row, Value column);
  void emitWeights();
  void storeCombined();

  View partials, tickets, weights;
  std::optional<LastArrival> arrival;
  Value parts;  ///< how many blocks have keys of this sequence
  Value number; ///< of this block's part
};

} // namespace gemma::codegen::cuda
