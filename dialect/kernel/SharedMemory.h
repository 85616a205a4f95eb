// Shared memory that the blocks of a GPU kernel need: what `launch` must give at least.
#pragma once

#include "dialect/kernel/Kernel.h"

namespace gemma::kernel {

/// Every piece of shared memory begins at a multiple of this.
constexpr int64_t kSharedAlignment = 128;

/// Lanes of a head in shared memory: a multiple of 16, one step of mma. What lies beyond the head
/// is zero there and nowhere else.
int64_t paddedLanes(int64_t dim);

/// Keys are made of values in shared memory as far as they need to be: the first `ofHalf` lanes of
/// each of the two halves that rope pairs, which hold all rotated ones. Other lanes of a key are
/// those of the value, and their weight goes to the query. Where the halves begin between steps of
/// mma, all lanes are computed.
struct ComputedLanes {
  int64_t half = 0;   ///< lane at which the second half begins
  int64_t ofHalf = 0; ///< computed lanes of a half
  int64_t lanes = 0;  ///< of a row of computed keys: both parts, or all, padded
  int64_t second = 0; ///< where the second half's begin in such a row
  bool all = false;
};

/// Between a row of scores of an attention's tile of keys, a multiple of 16 of them, and the next:
/// 8 columns of four rows in a row then lie in different banks.
constexpr int64_t kScorePadding = 8;

/// For an op without k_cache.
ComputedLanes computedLanes(AttentionOp op);

/// Bytes of one contraction, attention, top-k or rows op while it runs; nothing of it is kept.
/// 0 if it has no `gpu_tile` where it needs one.
int64_t sharedBytes(ContractOp op);
int64_t sharedBytes(AttentionOp op);
int64_t sharedBytes(TopKOp op);
int64_t sharedBytes(RowsOp op);

/// Bytes of a block: its scratch, what reductions over a block exchange, and the most that any one
/// op needs. `launch` is not looked at and need not be there.
int64_t sharedBytes(FuncOp kernel);

} // namespace gemma::kernel
