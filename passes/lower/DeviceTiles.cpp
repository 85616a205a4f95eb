#include "passes/lower/DeviceTiles.h"

#include "dialect/kernel/SharedMemory.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace gemma::passes {

/// Blocks of a kernel whose work is cut into equal parts.
static constexpr int64_t kBlocksOfCut = 2 * kMultiprocessors;
/// Fewest steps of such a part.
static constexpr int64_t kLeastSteps = 2;

static int64_t divideCeil(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The parts that this many tiles of this many steps are cut into; 0 if whole tiles are as good.
static int64_t segmentsOf(int64_t tiles, int64_t steps) {
  // Whole tiles: the last wave is not full.
  int64_t places = divideCeil(tiles, kMultiprocessors) * kMultiprocessors;
  if (20 * tiles >= 19 * places)
    return 0;
  int64_t parts = std::min(kBlocksOfCut, tiles * steps / kLeastSteps);
  return parts > std::min(tiles, kBlocksOfCut - 1) ? parts : 0;
}

/// Tiles of tokens that the blocks of one band share the rows of a weight for. Eight times 128 rows
/// of activations of the longest depth fit into the second-level cache of an H100 (50 MB).
static constexpr int64_t kRaster = 8;

static int64_t rasterOf(int64_t mostTokens, int64_t tileTokens) {
  return std::min(kRaster, divideCeil(mostTokens, tileTokens));
}

/// A cut of a projection for steps of a known number of tokens.
struct Choice {
  int64_t rows, tokens, stages, threads, segments;
  /// Rows of 128 bytes that the busiest multiprocessor copies, by which it is bound (decision
  /// 0018).
  int64_t cost;
};

/// The best cut for steps of `most` tokens: by how many tiles the busiest multiprocessor gets, or,
/// with `split`, in equal runs.
static Choice chooseCut(int64_t groups, int64_t kBlocks, int64_t most, bool split) {
  std::vector<Choice> choices;
  auto whole = [&](int64_t rows, int64_t tokens, int64_t stages, int64_t threads) {
    int64_t tiles = divideCeil(8 * groups, rows) * divideCeil(most, tokens);
    int64_t cost = divideCeil(tiles, kMultiprocessors) * kBlocks * (rows + tokens);
    choices.push_back({rows, tokens, stages, threads, 0, cost});
  };
  // Warps share pieces of 16 rows by 8 tokens. What they load of them from shared memory for a
  // product is least for these numbers of tokens.
  for (int64_t tokens : {128, 112, 96, 80, 64})
    if (tokens == 64 || tokens - 16 < most)
      whole(128, tokens, 3, 256);
  whole(64, 64, 4, 128);
  int64_t tiles = divideCeil(8 * groups, 128) * divideCeil(most, 64), steps = tiles * kBlocks;
  if (int64_t runs = std::min(kMultiprocessors, steps / kLeastSteps); split && runs > 1) {
    // A run leaves up to two parts of 128 by 64 sums and reads as many.
    int64_t parts = 4 * 64 * 128 * 4 / 128;
    choices.push_back({128, 64, 3, 256, runs, divideCeil(steps, runs) * (128 + 64) + parts});
  }
  return *llvm::min_element(choices, [](auto &a, auto &b) { return a.cost < b.cost; });
}

ContractionCut cutContraction(MLIRContext *context, int64_t groups, int64_t kBlocks,
                              kernel::Extent extent, const VariantPlan &plan) {
  int64_t most = extent == kernel::Extent::R ? plan.maxLogitRows : plan.maxTokens;
  int64_t tokens = plan.tokenTile;
  if (!tokens && extent != kernel::Extent::R) {
    Choice best = chooseCut(groups, kBlocks, most, plan.splitWork);
    auto tile = kernel::MmaAttr::get(context, best.rows, best.tokens, /*k=*/64, best.stages,
                                     best.segments, rasterOf(most, best.tokens));
    return {tile, best.threads};
  }
  if (!tokens) // of a prompt's rows few have logits
    tokens = 32;
  int64_t rows = 64, stages = 4, threads = 128, segments = 0;
  if (plan.splitWork) {
    if (tokens > 8) {
      rows = 128;
      threads = 256;
      stages = tokens > 32 ? 3 : 4;
    } else {
      // Of 9 KiB, or 8 beside prepared rows: two blocks of a multiprocessor have 64 KiB or more on
      // their way where it has 164 KiB; where it has 100, many prepared rows leave room for one.
      stages = 5;
    }
    int64_t tiles = divideCeil(8 * groups, rows);
    segments = segmentsOf(tiles, kBlocks);
    if (rows == 64 && !segments && tiles <= kMultiprocessors)
      stages = 8;  // one block a multiprocessor: all that is on its way is its own
    if (!segments) // a ring that goes on over tiles is never too long
      stages = std::clamp<int64_t>(kBlocks, 2, stages);
  }
  auto tile = kernel::MmaAttr::get(context, rows, tokens, /*k=*/64, stages, segments,
                                   rasterOf(most, tokens));
  return {tile, threads};
}

/// `tile` with other stages.
static kernel::MmaAttr withStages(kernel::MmaAttr tile, int64_t stages) {
  return kernel::MmaAttr::get(tile.getContext(), tile.getRows(), tile.getTokens(), tile.getK(),
                              stages, tile.getSegments(), tile.getRaster());
}

LogicalResult fitStages(kernel::ContractOp op) {
  auto function = op->getParentOfType<kernel::FuncOp>();
  kernel::MmaAttr tile = op.getGpuTileAttr();
  int64_t stages = tile.getStages();
  auto fits = [&] { return kernel::sharedBytes(function) <= kSharedLimit; };
  while (!fits() && stages > 2)
    op.setGpuTileAttr(withStages(tile, --stages));
  return success(fits());
}

int64_t attentionSplits(const VariantPlan &plan, int64_t kvHeads, int64_t window,
                        int64_t maxContext) {
  if (!plan.splitWork || !plan.fuseAttention)
    return 1;
  constexpr int64_t leastKeys = 64, most = 64;
  int64_t filling = divideCeil(kMultiprocessors, kvHeads * plan.minSequences);
  // A window that begins within a tile reaches into one more.
  int64_t tiles = window ? divideCeil(window, leastKeys) + 1 : divideCeil(maxContext, leastKeys);
  return std::max<int64_t>(1, std::min({filling, tiles, most}));
}

/// The fewest tiles of a split. The last block of a sequence reads what all splits left, the others
/// their keys, and the sum of both is least where a split's keys are as many bytes as all splits
/// leave: for some 8192 keys, or the window.
static int64_t runOf(kernel::AttentionOp op, int64_t keys) {
  auto v = cast<MemRefType>(op.getVCache().getType());
  int64_t group = cast<MemRefType>(op.getOut().getType()).getDimSize(1) / v.getDimSize(1);
  int64_t tileBytes = keys * 2 * (op.getKCache() ? 2 : 1), partBytes = group * 4;
  auto window = static_cast<int64_t>(op.getWindow());
  int64_t tiles = (window ? window : 8192) / keys, run = 1;
  while (run * run * tileBytes < tiles * partBytes)
    ++run;
  return run;
}

LogicalResult setAttentionTile(kernel::AttentionOp op, int64_t splits) {
  int64_t group = cast<MemRefType>(op.getOut().getType()).getDimSize(1) /
                  cast<MemRefType>(op.getVCache().getType()).getDimSize(1);
  bool decode = op.getQueryTile() == 1;
  for (int64_t rows : {64, 32, 16}) {
    if (!decode)
      op.setQueryTile(std::max<int64_t>(1, rows / group));
    for (auto [keys, stages] :
         {std::pair<int64_t, int64_t>{64, 2}, {32, 2}, {32, 1}, {16, 2}, {16, 1}}) {
      // Fewer rows with more keys are better than many rows with 16 keys.
      if (keys == 16 && rows > 16)
        continue;
      op.setGpuTileAttr(kernel::FlashAttr::get(op.getContext(), keys, stages, splits,
                                               splits > 1 ? runOf(op, keys) : 1));
      if (kernel::sharedBytes(op) <= kSharedLimit)
        return success();
    }
  }
  return failure();
}

int64_t attentionThreads(kernel::AttentionOp op) {
  auto out = cast<MemRefType>(op.getOut().getType()),
       v = cast<MemRefType>(op.getVCache().getType());
  int64_t rows = static_cast<int64_t>(op.getQueryTile()) * out.getDimSize(1) / v.getDimSize(1);
  return rows > 16 && out.getDimSize(2) > 256 ? 256 : 128;
}

} // namespace gemma::passes
