#include "passes/lower/DeviceTiles.h"

#include "dialect/kernel/SharedMemory.h"

using namespace mlir;

namespace gemma::passes {

kernel::MmaAttr contractionTile(MLIRContext *context, int64_t tokens) {
  return kernel::MmaAttr::get(context, /*rows=*/64, tokens, /*k=*/64, /*stages=*/4);
}

LogicalResult setAttentionTile(kernel::AttentionOp op) {
  int64_t group = cast<MemRefType>(op.getQ().getType()).getDimSize(1) /
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
      op.setGpuTileAttr(kernel::FlashAttr::get(op.getContext(), keys, stages));
      if (kernel::sharedBytes(op) <= kSharedLimit)
        return success();
    }
  }
  return failure();
}

} // namespace gemma::passes
