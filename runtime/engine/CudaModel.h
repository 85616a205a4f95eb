// A model on a CUDA device: its kernels, weights and tables there.
#pragma once

#include "runtime/device/Executor.h"
#include "runtime/device/cuda/Kernels.h"
#include "runtime/device/cuda/Staging.h"
#include "runtime/engine/Artifact.h"
#include "runtime/engine/MemoryPlan.h"

#include <memory>
#include <optional>
#include <span>
#include <string>

namespace gemma {

/// The artifact's kernels on a device, in the program's order. Refused: see cuda::loadKernels().
Expected<cuda::LoadedKernels>
loadArtifactKernels(const Artifact &artifact, const std::shared_ptr<const cuda::Device> &device);

class CudaModel {
public:
  /// Opens device `ordinal` and loads the artifact's kernels. Refused: see cuda::Device::open() and
  /// cuda::loadKernels().
  static Expected<std::unique_ptr<CudaModel>> open(const Artifact &artifact, int ordinal);

  /// "cuda:0 (NVIDIA H200), code for sm_90".
  std::string title() const;

  /// Refuses with the numbers if `bytes` are more than the device has left beside what the driver
  /// may still take.
  Status checkMemory(uint64_t bytes, const MemoryPlan &plan) const;

  /// Memory for weights and tables; once.
  Status allocate(uint64_t bytes);
  /// Copies to byte `offset` of it.
  Status upload(uint64_t offset, std::span<const std::byte> bytes);
  /// Returns when all is there.
  Status finishUploads();
  /// Its first byte, for kernels.
  const std::byte *data() const {
    // The driver gives addresses as integers. NOLINTNEXTLINE(performance-no-int-to-ptr)
    return reinterpret_cast<const std::byte *>(memory.pointer());
  }

  /// What runs a context's launches. With GEMMA_CUDA_SYNC=1 each launch is waited for, so that an
  /// error names its kernel; with GEMMA_CUDA_GRAPHS=0 steps do not become graphs.
  Expected<std::unique_ptr<Executor>> makeExecutor() const;

private:
  CudaModel() = default;

  std::shared_ptr<const cuda::Device> device;
  cuda::LoadedKernels loaded;
  cuda::Memory memory;
  std::optional<cuda::Staging> staging; ///< while uploading
};

} // namespace gemma
