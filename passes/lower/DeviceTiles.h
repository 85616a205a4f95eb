// How kernels for CUDA devices are cut: threads, tiles and stages, from a small table.
#pragma once

#include "dialect/kernel/Kernel.h"

namespace gemma::passes {

/// Threads of a block, by what its kernel does. A projection's warps share its tile equally; rows
/// of a model's width give every thread a few 16-byte chunks.
inline constexpr int64_t kThreadsOfContraction = 128;
inline constexpr int64_t kThreadsOfAttention = 128;
inline constexpr int64_t kThreadsOfRows = 256;

/// Most shared memory that the portable kernels take of a block: what sm_86, sm_89 and sm_120 have
/// (CUDA C++ Programming Guide, table of technical specifications).
inline constexpr int64_t kSharedLimit = 99 * 1024;

/// The tile of a projection with that many tokens a block: 64 rows of weights, and as many stages
/// of 64 columns as keep some 32 KiB of weights in flight.
kernel::MmaAttr contractionTile(mlir::MLIRContext *context, int64_t tokens);

/// Sets the tile of `op`, and its query tile unless that is 1 (decode): up to 64 rows, a query and
/// head each, and as many keys, in two stages or one, as fit into the limit. Fails if not even 16
/// rows and 16 keys do.
llvm::LogicalResult setAttentionTile(kernel::AttentionOp op);

} // namespace gemma::passes
