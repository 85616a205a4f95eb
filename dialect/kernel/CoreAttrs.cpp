// Verifiers of the attributes of kernels and core ops.
#include "dialect/kernel/Kernel.h"

using namespace mlir;
using namespace gemma::kernel;

LogicalResult PagingAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t page,
                                 int64_t ring) {
  // paging_c1
  if (page < 1)
    return emitError() << "expected page >= 1, got " << page;
  // paging_c2
  if (ring < 0)
    return emitError() << "expected ring >= 0, got " << ring;
  return success();
}

LogicalResult LaunchAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                                 int64_t threads, int64_t shared, int64_t producers) {
  // launch_c1
  if (threads < 32 || threads > 1024 || threads % 32 != 0)
    return emitError() << "expected threads to be a multiple of 32 in [32, 1024], got " << threads;
  // launch_c2
  if (shared < 0)
    return emitError() << "expected shared >= 0, got " << shared;
  // launch_c3
  if (producers < 0 || 32 * producers >= threads)
    return emitError() << "expected at least 0 producers and fewer than the " << threads / 32
                       << " warps, got " << producers;
  return success();
}

LogicalResult MmaAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t rows,
                              int64_t tokens, int64_t k, int64_t stages, int64_t segments,
                              int64_t raster) {
  // mma_c1
  if (rows < 16 || rows % 16 != 0 || tokens < 8 || tokens % 8 != 0 || k < 64 || k % 64 != 0)
    return emitError() << "expected positive multiples, rows of 16, tokens of 8 and k of 64, got "
                       << rows << ", " << tokens << " and " << k;
  // mma_c2
  if (stages < 2 || stages > 8)
    return emitError() << "expected stages in [2, 8], got " << stages;
  // mma_c3
  if (segments < 0 || segments > 65535)
    return emitError() << "expected segments in [0, 65535], got " << segments;
  // mma_c4
  if (raster < 1 || raster > 256)
    return emitError() << "expected raster in [1, 256], got " << raster;
  return success();
}

LogicalResult FlashAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t keys,
                                int64_t stages, int64_t splits, int64_t run) {
  // flash_c1
  if (keys != 16 && keys != 32 && keys != 64 && keys != 128)
    return emitError() << "expected keys to be 16, 32, 64 or 128, got " << keys;
  // flash_c2
  if (stages < 1 || stages > 4)
    return emitError() << "expected stages in [1, 4], got " << stages;
  // flash_c3
  if (splits < 1 || splits > 128 || run < 1)
    return emitError() << "expected splits in [1, 128] and a positive run, got " << splits
                       << " and " << run;
  return success();
}
