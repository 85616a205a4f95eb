// What timings of launches share: the artifact's kernels on a device, memory for their arguments, a
// stream and a clock.
#pragma once

#include "runtime/device/cuda/Kernels.h"
#include "runtime/engine/Artifact.h"

#include <functional>
#include <memory>
#include <vector>

namespace gemma::check {

class DeviceBench {
public:
  /// `launches` are timed at a time.
  DeviceBench(std::shared_ptr<const cuda::Device> device, int64_t launches)
      : device(std::move(device)), launches(launches) {}
  Status prepare(const Artifact &artifact);

  cuda::StreamHandle streamHandle() const { return stream.get(); }
  const std::string &code() const { return kernels.code; } ///< "sm_90", "PTX for sm_80"

  /// Memory of zeros, until release().
  Expected<cuda::DevicePointer> zeros(uint64_t bytes);
  Expected<cuda::DevicePointer> sizesOnDevice(const StepSizes &sizes);
  void release() { held.clear(); }

  /// Enqueues a kernel of the program; a pointer an argument, then one to the sizes.
  Status launch(int64_t kernel, uint64_t blocks, std::vector<cuda::DevicePointer> values);
  /// Microseconds of a call of `run`, of many behind each other: the best of some rounds.
  Expected<double> micros(const std::function<Status(uint64_t number)> &run);
  Status wait() { return device->call(device->api().streamSynchronize, stream.get()); }

  const std::shared_ptr<const cuda::Device> device;
  const int64_t launches;

private:
  cuda::LoadedKernels kernels;
  cuda::Stream stream;
  std::vector<cuda::Memory> held;
};

} // namespace gemma::check
