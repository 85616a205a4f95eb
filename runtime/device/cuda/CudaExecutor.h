// A CUDA device as the device of a context.
#pragma once

#include "runtime/device/Executor.h"
#include "runtime/device/cuda/Kernels.h"
#include "runtime/device/cuda/Staging.h"
#include "runtime/support/Memory.h"

#include <optional>
#include <span>
#include <vector>

namespace gemma::cuda {

/// Launches are collected and given to the device in finish(): one copy of the step's inputs, the
/// launches, the copies of its results, one wait.
class CudaExecutor : public Executor {
public:
  /// `kernels`, one a kernel of the program, outlive the executor. With `waitEachLaunch` errors
  /// name the kernel that made them.
  static Expected<std::unique_ptr<Executor>> create(std::shared_ptr<const Device> device,
                                                    std::span<const LoadedKernel> kernels,
                                                    bool waitEachLaunch);
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
               bool waitEachLaunch)
      : device(std::move(device)), kernels(kernels), waitEachLaunch(waitEachLaunch) {}

  /// What run() collects.
  struct Pending {
    size_t kernel;
    uint32_t blocks;
    std::span<void *const> arguments;
    const GemmaSizes *sizes;
    std::span<const std::string> nodes;
  };
  Status enqueue(std::span<const ByteRange> results);
  Status launch(const Pending &pending);
  Status wait();
  Expected<Staging *> copies();
  std::byte *hostPlace(uint64_t offset) const {
    return offset < pinned.bytes ? pinned.data() + offset : mirror.data() + offset - pinned.bytes;
  }

  std::shared_ptr<const Device> device;
  std::span<const LoadedKernel> kernels;
  bool waitEachLaunch;
  Memory memory;
  PinnedMemory pinned; ///< of the visible bytes
  PageMemory mirror;   ///< of the rest; its pages take memory once something is brought there
  std::optional<Staging> staging;
  Stream stream;
  uint64_t inputBytes = 0; ///< still to be copied
  std::vector<Pending> launches;
};

} // namespace gemma::cuda
