#include "runtime/engine/CudaModel.h"

#include "runtime/device/cuda/CudaExecutor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace gemma {

/// What is left to the driver of a device's memory: graphs, local memory and modules loaded later
/// take some that no plan knows. A hundredth, at least 64 MiB.
static uint64_t driverShare(const cuda::Device &device) {
  return std::max(uint64_t(64) << 20, device.facts().memoryBytes / 100);
}

/// Large enough that a copy's start costs nothing beside it.
static constexpr uint64_t stagingBytes = uint64_t(16) << 20;

Expected<cuda::LoadedKernels>
loadArtifactKernels(const Artifact &artifact, const std::shared_ptr<const cuda::Device> &device) {
  std::vector<cuda::KernelImage> images;
  for (const KernelBinary &binary : artifact.objects)
    if (binary.kind == ObjectKind::Cubin || binary.kind == ObjectKind::Ptx)
      images.push_back({binary.kind == ObjectKind::Ptx,
                        std::string_view(binary.name).substr(0, binary.name.find('/')),
                        binary.kernel, binary.bytes});
  std::vector<cuda::KernelNeed> needs;
  for (const KernelPlan &kernel : artifact.program.kernels)
    needs.push_back({kernel.name, kernel.threads, kernel.sharedBytes});
  return cuda::loadKernels(device, images, needs);
}

Expected<std::unique_ptr<CudaModel>> CudaModel::open(const Artifact &artifact, int ordinal) {
  Expected<std::shared_ptr<const cuda::Device>> device = cuda::Device::open(ordinal);
  if (!device)
    return device.status();
  std::unique_ptr<CudaModel> model(new CudaModel);
  model->device = *device;
  Expected<cuda::LoadedKernels> loaded = loadArtifactKernels(artifact, *device);
  if (!loaded)
    return loaded.status();
  model->loaded = std::move(*loaded);
  return model;
}

std::string CudaModel::title() const { return device->title() + ", code for " + loaded.code; }

Status CudaModel::checkMemory(uint64_t bytes, const MemoryPlan &plan) const {
  Expected<uint64_t> left = device->freeBytes();
  if (!left)
    return left.status();
  uint64_t reserve = driverShare(*device);
  if (bytes <= *left - std::min(*left, reserve))
    return {};
  return badInput(device->title() + ": not enough memory: expected " + std::to_string(bytes) +
                  " bytes free and " + std::to_string(reserve) + " more for the driver, got " +
                  std::to_string(*left) + " of " + std::to_string(device->facts().memoryBytes) +
                  "; the plan is\n" + plan.text() + "a smaller --context takes less");
}

Status CudaModel::allocate(uint64_t bytes) {
  Expected<cuda::Memory> made = device->allocate(bytes, "weights and tables");
  if (!made)
    return made.status();
  memory = std::move(*made);
  return {};
}

Status CudaModel::upload(uint64_t offset, std::span<const std::byte> bytes) {
  if (!staging) {
    Expected<cuda::Staging> made = cuda::Staging::create(device, stagingBytes);
    if (!made)
      return made.status();
    staging.emplace(std::move(*made));
  }
  return staging->upload(memory.pointer() + offset, bytes);
}

Status CudaModel::finishUploads() {
  if (!staging)
    return {};
  Status status = staging->finish();
  staging.reset();
  return status;
}

Expected<std::unique_ptr<Executor>> CudaModel::makeExecutor() const {
  auto is = [](const char *name, const char *value) {
    const char *set = std::getenv(name);
    return set && std::strcmp(set, value) == 0;
  };
  cuda::CudaExecutorOptions options;
  options.waitEachLaunch = is("GEMMA_CUDA_SYNC", "1");
  options.graphs = !is("GEMMA_CUDA_GRAPHS", "0");
  return cuda::CudaExecutor::create(device, loaded.kernels, options);
}

} // namespace gemma
