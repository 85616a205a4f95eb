// Shared memory that the blocks of a GPU kernel need: what `launch` must give at least.
#pragma once

#include "dialect/kernel/Kernel.h"

namespace gemma::kernel {

/// Every piece of shared memory begins at a multiple of this.
constexpr int64_t kSharedAlignment = 128;

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
