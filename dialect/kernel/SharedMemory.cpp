#include "dialect/kernel/SharedMemory.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace gemma::kernel {
namespace {

int64_t aligned(int64_t bytes) {
  return static_cast<int64_t>(
      llvm::alignTo(static_cast<uint64_t>(bytes), static_cast<uint64_t>(kSharedAlignment)));
}

int64_t bytesOf(MemRefType type) {
  return type.getNumElements() * type.getElementTypeBitWidth() / 8;
}

} // namespace

/// The ring of steps, 128 bytes a row (of activations too, unless they are scratch) and 64 columns;
/// then in its place the results, 16 bytes between rows. A block that goes on with the next tile
/// meanwhile has both, and a word for all its threads.
int64_t sharedBytes(ContractOp op) {
  if (!op.getGpuTile())
    return 0;
  MmaAttr tile = op.getGpuTileAttr();
  int64_t copied = tile.getRows() + (op.hasPreparedRows() ? 0 : tile.getTokens());
  int64_t ring = tile.getStages() * (tile.getK() / 64) * copied * 128;
  auto out = cast<MemRefType>(op.getOut().getType());
  int64_t columns = tile.getRows() / (op.getPair() ? 2 : 1);
  int64_t results = tile.getTokens() * (columns * out.getElementTypeBitWidth() / 8 + 16);
  if (tile.getSegments() > 0)
    return aligned(ring) + aligned(results) + aligned(4);
  return aligned(std::max(ring, results));
}

int64_t paddedLanes(int64_t dim) {
  return static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(dim), 16));
}

ComputedLanes computedLanes(AttentionOp op) {
  auto v = cast<MemRefType>(op.getVCache().getType());
  int64_t active = cast<MemRefType>(op.getKeyParts().back().getType()).getDimSize(1);
  int64_t half = op.getRotAttr().getInt() / 2, ofHalf = paddedLanes(active);
  if (half % 16 != 0 || ofHalf == half)
    return {half, half, paddedLanes(v.getDimSize(3)), half, true};
  return {half, ofHalf, 2 * ofHalf, ofHalf, false};
}

/// Queries, rings of K and V (without K one tile of computed keys), probabilities, scores with
/// padding between rows, a factor a row; then in their place, with splits, a word for all threads
/// and a factor a row and split.
int64_t sharedBytes(AttentionOp op) {
  if (!op.getGpuTile())
    return 0;
  int64_t keys = op.getGpuTileAttr().getKeys(), stages = op.getGpuTileAttr().getStages();
  auto out = cast<MemRefType>(op.getOut().getType()),
       v = cast<MemRefType>(op.getVCache().getType());
  int64_t dim = paddedLanes(v.getDimSize(3)), group = out.getDimSize(1) / v.getDimSize(1);
  auto rows = static_cast<int64_t>(
      llvm::alignTo(static_cast<uint64_t>(static_cast<int64_t>(op.getQueryTile()) * group), 16));
  int64_t keyBytes = op.getKCache() ? stages * keys * dim * 2 : keys * computedLanes(op).lanes * 2;
  int64_t combining = aligned(4) + aligned(group * op.getGpuTileAttr().getSplits() * 4);
  int64_t tiles = aligned(rows * dim * 2) + aligned(stages * keys * dim * 2) + aligned(keyBytes) +
                  aligned(rows * keys * 2) + aligned(rows * (keys + kScorePadding) * 4) +
                  aligned(rows * 4);
  return op.getGpuTileAttr().getSplits() > 1 ? std::max(tiles, combining) : tiles;
}

int64_t sharedBytes(TopKOp) { return aligned(int64_t{32} * 8); }

int64_t sharedBytes(RowsOp) { return 0; }

int64_t sharedBytes(FuncOp kernel) {
  int64_t scratch = 0, most = 0;
  bool reduces = false;
  kernel.walk([&](Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](ScratchOp memory) {
          scratch += aligned(bytesOf(cast<MemRefType>(memory.getMemory().getType())));
        })
        .Case([&](ReduceOp) { reduces = true; })
        .Case<RowsOp, ContractOp, AttentionOp, TopKOp>(
            [&](auto core) { most = std::max(most, sharedBytes(core)); });
  });
  // A slot a warp.
  return scratch + most + (reduces ? aligned(int64_t{32} * 4) : 0);
}

} // namespace gemma::kernel
