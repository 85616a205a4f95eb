// The host's cores as the device of a context.
#pragma once

#include "runtime/device/Executor.h"
#include "runtime/device/WorkerPool.h"

#include <cstddef>

namespace gemma {

class HostExecutor : public Executor {
public:
  /// `kernels`: one a kernel of the program; they outlive the executor.
  HostExecutor(std::span<const GemmaKernel> kernels, unsigned threads)
      : kernels(kernels), pool(threads) {}

  /// Never fails: host kernels have no error path.
  Status run(const KernelCall &call) override;

private:
  std::span<const GemmaKernel> kernels;
  WorkerPool pool;
};

} // namespace gemma
