#include "tools/gemma-gpu-check/DeviceBench.h"

#include "runtime/abi/KernelAbi.h"
#include "runtime/device/cuda/Staging.h"
#include "runtime/engine/CudaModel.h"

#include <algorithm>
#include <chrono>

namespace gemma::check {

/// Rounds of launches that are timed; the best counts.
static constexpr int rounds = 5;

Status DeviceBench::prepare(const Artifact &artifact) {
  Expected<cuda::LoadedKernels> loaded = loadArtifactKernels(artifact, device);
  if (!loaded)
    return loaded.status();
  kernels = std::move(*loaded);
  Expected<cuda::Stream> made = device->makeStream();
  if (!made)
    return made.status();
  stream = std::move(*made);
  return {};
}

Expected<cuda::DevicePointer> DeviceBench::zeros(uint64_t bytes) {
  Expected<cuda::Memory> made = device->allocate(std::max<uint64_t>(bytes, 1), "a measurement");
  if (!made)
    return made.status();
  held.push_back(std::move(*made));
  if (Status status =
          device->call(device->api().memset, held.back().pointer(), static_cast<unsigned char>(0),
                       size_t(held.back().bytes), stream.get());
      !status)
    return status;
  if (Status status = wait(); !status)
    return status;
  return held.back().pointer();
}

Expected<cuda::DevicePointer> DeviceBench::sizesOnDevice(const StepSizes &sizes) {
  GemmaSizes content = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
  Expected<cuda::DevicePointer> place = zeros(sizeof content);
  if (!place)
    return place;
  Expected<cuda::Staging> staging = cuda::Staging::create(device, 4096);
  if (!staging)
    return staging.status();
  if (Status status = staging->upload(*place, std::as_bytes(std::span(&content, 1))); !status)
    return status;
  if (Status status = staging->finish(); !status)
    return status;
  return place;
}

Status DeviceBench::launch(int64_t number, uint64_t blocks,
                           std::vector<cuda::DevicePointer> values) {
  std::vector<void *> parameters;
  parameters.reserve(values.size());
  for (cuda::DevicePointer &value : values)
    parameters.push_back(&value);
  const cuda::LoadedKernel &kernel = kernels.kernels[size_t(number)];
  return device->call(device->api().launchKernel, kernel.function, unsigned(blocks), 1u, 1u,
                      unsigned(kernel.need.threads), 1u, 1u, unsigned(kernel.need.sharedBytes),
                      stream.get(), parameters.data(), static_cast<void **>(nullptr));
}

Expected<double> DeviceBench::micros(const std::function<Status(uint64_t number)> &run) {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  uint64_t number = 0;
  for (int round = -1; round < rounds; ++round) { // the first is not counted
    auto start = Clock::now();
    for (int64_t i = 0; i < launches; ++i)
      if (Status status = run(number++); !status)
        return status;
    if (Status status = wait(); !status)
      return status;
    double each =
        std::chrono::duration<double, std::micro>(Clock::now() - start).count() / double(launches);
    if (round == 0 || (round > 0 && each < best))
      best = each;
  }
  return best;
}

} // namespace gemma::check
