// How kernels for CUDA devices are cut: threads, tiles and stages, by what a block copies.
#pragma once

#include "dialect/kernel/Kernel.h"
#include "passes/VariantPlan.h"

namespace gemma::passes {

/// Threads of a block of rows: rows of a model's width give every thread a few 16-byte chunks.
inline constexpr int64_t kThreadsOfRows = 256;

/// Most shared memory that the portable kernels take of a block: what sm_86, sm_89 and sm_120 have
/// (CUDA C++ Programming Guide, table of technical specifications).
inline constexpr int64_t kSharedLimit = int64_t{99} * 1024;

/// The multiprocessors that work is cut for. Kernels, and with them their grids, are the same for
/// all targets of an artifact, so this is one number: that of the H100 and H200. An A100 has 108, a
/// B200 148, an RTX PRO 6000 188; there a cut into two blocks a multiprocessor leaves up to a fifth
/// idle where all blocks run at once.
inline constexpr int64_t kMultiprocessors = 132;

/// How a projection is cut.
struct ContractionCut {
  kernel::MmaAttr tile;
  int64_t threads = 0; ///< whose warps share the tile equally
};

/// A projection of `groups` groups of 8 rows of the weight and `kBlocks` blocks of 64 columns, in
/// this variant. Decode reads each weight once and is as fast as memory, so tiles are as high as
/// keeps the activations that every block reads a small part (64 rows for 8 tokens, 128 above), and
/// where whole tiles would leave more than a twentieth of the multiprocessors idle, two runs of
/// steps for each of them take their place. Prefill (`tokenTile` 0) has the tile whose waves leave
/// the least to the busiest multiprocessor at the variant's most tokens, or, where work may be
/// shared, a run of steps for each. `extent`: the rows that are computed, of which R are few.
ContractionCut cutContraction(mlir::MLIRContext *context, int64_t groups, int64_t kBlocks,
                              kernel::Extent extent, const VariantPlan &plan);

/// Takes stages away until the shared memory of the kernel is within the limit. Fails if two stages
/// are too many.
llvm::LogicalResult fitStages(kernel::ContractOp op);

/// In how many parts the keys of a sequence are cut, at most, so that a step of the variant's
/// fewest sequences fills the device. At least 64 keys each; window 0: as many as the context has.
int64_t attentionSplits(const VariantPlan &plan, int64_t kvHeads, int64_t window,
                        int64_t maxContext);

/// Threads of an attention whose tile is set: 4 warps, and 8 where heads of 512 have more than one
/// piece of 16 rows, so that a warp's share of the output leaves registers for the rest.
int64_t attentionThreads(kernel::AttentionOp op);

/// Sets the tile of `op` for this many splits, and its query tile unless that is 1 (decode): up to
/// 64 rows, a query and head each, and as many keys, in two stages or one, as fit into the limit.
/// Fails if not even 16 rows and 16 keys do.
llvm::LogicalResult setAttentionTile(kernel::AttentionOp op, int64_t splits);

} // namespace gemma::passes
