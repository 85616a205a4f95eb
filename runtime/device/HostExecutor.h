// The host's cores as the device of a context.
#pragma once

#include "runtime/device/Executor.h"
#include "runtime/device/WorkerPool.h"

#include <cstddef>

namespace gemma {

class HostExecutor : public Executor {
public:
  /// `kernels`: one a kernel of the program; they outlive the executor. Worker w gets the scratch
  /// memory from `scratch + w · scratchStride` on.
  HostExecutor(std::span<const GemmaKernel> kernels, unsigned threads, std::byte *scratch,
               uint64_t scratchStride)
      : kernels(kernels), pool(threads), scratch(scratch), scratchStride(scratchStride) {}

  /// Never fails: host kernels have no error path.
  Status run(const KernelCall &call) override;

private:
  std::span<const GemmaKernel> kernels;
  WorkerPool pool;
  std::byte *scratch;
  uint64_t scratchStride;
};

} // namespace gemma
