// A CUDA device as the device of a context.
#pragma once

#include "runtime/device/Executor.h"
#include "runtime/device/cuda/Kernels.h"
#include "runtime/device/cuda/Staging.h"
#include "runtime/support/Memory.h"

#include <map>
#include <optional>
#include <span>
#include <vector>

namespace gemma::cuda {

struct CudaExecutorOptions {
  /// Each launch is waited for, so that an error names the kernel that made it; no graphs then.
  bool waitEachLaunch = false;
  bool graphs = true;
};

/// Launches are collected and given to the device in finish(): one copy of the step's inputs, the
/// launches, the copies of its results, one wait. Launches that were seen before, with the same
/// numbers of blocks, become a graph, which from then on is launched as it is: all that differs
/// from step to step lies in the inputs, a step's sizes too, and kernels read those from memory.
/// Steps of one token a sequence are launched as the largest of their variant, so that they share
/// one graph whatever the batch.
class CudaExecutor : public Executor {
public:
  /// `kernels`, one a kernel of the program, outlive the executor.
  static Expected<std::unique_ptr<Executor>> create(std::shared_ptr<const Device> device,
                                                    std::span<const LoadedKernel> kernels,
                                                    const CudaExecutorOptions &options);
  ~CudaExecutor() override;

  Expected<ContextMemory> allocate(uint64_t bytes, uint64_t visible) override;
  void begin(size_t variant, uint64_t inputBytes) override;
  Status run(const KernelCall &call) override;
  Status finish(std::span<const ByteRange> results) override;
  Status download(ByteRange range) override;
  Status upload(ByteRange range) override;
  Status fill(ByteRange range, uint8_t value) override;

private:
  CudaExecutor(std::shared_ptr<const Device> device, std::span<const LoadedKernel> kernels,
               const CudaExecutorOptions &options)
      : device(std::move(device)), kernels(kernels), options(options) {}

  /// What run() collects.
  struct Pending {
    size_t kernel;
    uint32_t blocks;
    std::span<void *const> arguments;
    const GemmaSizes *sizes;
    std::span<const std::string> nodes;
  };
  /// What tells two steps' launches apart: variant, kernel and blocks of each launch.
  using StepKey = std::vector<uint64_t>;
  struct Graph {
    uint64_t steps = 0; ///< that had this key
    Owned<GraphExecHandle> exec;
  };

  StepKey key() const;
  Status copyInputs();
  Status copyResults(std::span<const ByteRange> results);
  Status launchAll();
  /// The launches as a graph, if there is or should be one; else null.
  Expected<GraphExecHandle> graphOfLaunches();
  Status withoutGraphs(Result result, const Status &status);
  Status launchStep(GraphExecHandle graph);
  Status launch(const Pending &pending);
  Status wait();
  Expected<Staging *> copies();
  std::byte *hostPlace(uint64_t offset) const {
    return offset < pinned.bytes ? pinned.data() + offset : mirror.data() + offset - pinned.bytes;
  }

  std::shared_ptr<const Device> device;
  std::span<const LoadedKernel> kernels;
  CudaExecutorOptions options;
  Memory memory;
  PinnedMemory pinned; ///< of the visible bytes
  PageMemory mirror;   ///< of the rest; its pages take memory once something is brought there
  std::optional<Staging> staging;
  Stream stream;
  size_t variant = 0;
  uint64_t inputBytes = 0; ///< still to be copied
  bool whole = false;      ///< nothing of the step was given to the device yet
  std::map<StepKey, Graph> graphs;
  std::vector<Pending> launches;
};

} // namespace gemma::cuda
