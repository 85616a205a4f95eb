// The host's cores as the device of a context.
#pragma once

#include "runtime/device/Executor.h"
#include "runtime/device/WorkerPool.h"

#include <cstdint>
#include <vector>

namespace gemma {

class HostExecutor : public Executor {
public:
  /// `kernels`: one a kernel of the program; they outlive the executor.
  HostExecutor(std::span<const GemmaKernel> kernels, unsigned threads)
      : kernels(kernels), pool(threads), workers(pool.threads()) {}

  /// Never fails: host kernels have no error path.
  Status run(const KernelCall &call) override;

private:
  struct alignas(64) Worker {
    uint64_t launch = 0; ///< the last one that it had a range of
  };

  std::span<const GemmaKernel> kernels;
  WorkerPool pool;
  std::vector<Worker> workers;
  uint64_t launches = 0;
};

} // namespace gemma
