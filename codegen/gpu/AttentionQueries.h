// Which queries a block of kernel.attention has, and which keys they see.
#pragma once

#include "codegen/gpu/GpuBuilder.h"

namespace gemma::codegen::cuda {

/// What AttentionLowering builds on. A block's rows are its (query, head) pairs: row r is query
/// r / group and head r mod group of the KV head.
class AttentionQueries {
protected:
  using Value = mlir::Value;

  AttentionQueries(GpuBuilder &b, kernel::AttentionOp op)
      : b(b), op(op), splits(op.getGpuTileAttr() ? op.getGpuTileAttr().getSplits() : 1),
        rowStarts(b.viewOf(op, op.getRowStarts())), seqLens(b.viewOf(op, op.getSeqLens())),
        slots(b.viewOf(op, op.getSlots())), pageTable(b.viewOf(op, op.getPageTable())) {}

  /// Sets kvHead and the queries of block `block`; `queries` is 0 for a surplus block.
  void findQueries(Value block);
  /// Sets positions, rows and the keys that any of them sees. For a block that has queries.
  void findKeys();

  /// The first key that the query at this position sees.
  Value firstVisible(Value position);
  /// Where a page of the sequence lies in the cache.
  Value physicalPage(Value number);
  /// Token of the step and head of a row.
  std::pair<Value, Value> queryOf(Value row);

  GpuBuilder &b;
  kernel::AttentionOp op;
  int64_t kvHeads = 0, group = 0; ///< query heads of a KV head
  int64_t splits;                 ///< blocks that share the keys of a tile of queries
  Value kvHead, split, sequence;
  Value queries;           ///< how many
  Value validRows;         ///< rows that are not padding
  Value firstPosition;     ///< of the first query, in its sequence
  Value firstKey, lastKey; ///< that any row sees

private:
  View rowStarts, seqLens, slots, pageTable;
  Value slot, firstQuery;
};

} // namespace gemma::codegen::cuda
