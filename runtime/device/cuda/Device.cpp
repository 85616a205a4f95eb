#include "runtime/device/cuda/Device.h"

namespace gemma::cuda {

/// The oldest driver whose entry points, and the PTX of the kernels, we count on.
static constexpr int oldestDriver = 12000;

static std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Expected<std::shared_ptr<const Device>> Device::open(int ordinal) {
  Expected<std::shared_ptr<const Library>> library = Library::open();
  if (!library)
    return library.status();
  std::shared_ptr<Device> device(new Device(std::move(*library), ordinal));
  if (Status status = device->prepare(); !status)
    return status;
  return std::shared_ptr<const Device>(std::move(device));
}

Status Device::prepare() {
  const Api &cu = api();
  if (Status status = library->call(cu.init, 0u); !status)
    return located(status);
  if (Status status = library->call(cu.driverGetVersion, &known.driverVersion); !status)
    return located(status);
  if (known.driverVersion < oldestDriver)
    return badInput("CUDA driver too old: expected one for CUDA " + versionText(oldestDriver) +
                    " or newer, got " + versionText(known.driverVersion));
  int count = 0;
  if (Status status = library->call(cu.deviceGetCount, &count); !status)
    return located(status);
  if (ordinal < 0 || ordinal >= count)
    return badInput("no device cuda:" + std::to_string(ordinal) + ": the driver has " +
                    (count == 0 ? "none" : std::to_string(count) + ", from cuda:0 on"));
  if (Status status = library->call(cu.deviceGet, &device, ordinal); !status)
    return located(status);
  char name[256] = {};
  if (Status status = library->call(cu.deviceGetName, name, int(sizeof name) - 1, device); !status)
    return located(status);
  known.name = name;
  size_t total = 0;
  if (Status status = library->call(cu.deviceTotalMem, &total, device); !status)
    return located(status);
  known.memoryBytes = total;
  int shared = 0, threads = 0, blocks = 0, processors = 0;
  for (auto [value, attribute] :
       {std::pair(&known.major, ComputeCapabilityMajor),
        std::pair(&known.minor, ComputeCapabilityMinor),
        std::pair(&shared, MaxSharedMemoryPerBlockOptin), std::pair(&threads, MaxThreadsPerBlock),
        std::pair(&blocks, MaxGridDimX), std::pair(&processors, MultiprocessorCount)})
    if (Status status = library->call(cu.deviceGetAttribute, value, int(attribute), device);
        !status)
      return located(status);
  known.sharedBytesPerBlock = uint64_t(shared);
  known.threadsPerBlock = uint32_t(threads);
  known.blocksPerGrid = uint32_t(blocks);
  known.multiprocessors = uint32_t(processors);
  return located(library->call(cu.primaryCtxRetain, &context, device));
}

Device::~Device() {
  if (context)
    (void)library->call(api().primaryCtxRelease, device);
}

std::string Device::title() const {
  return "cuda:" + std::to_string(ordinal) + (known.name.empty() ? "" : " (" + known.name + ")");
}

Status Device::located(const Status &status) const {
  if (status)
    return {};
  Error error = status.error();
  error.message = title() + ": " + error.message;
  return error;
}

std::optional<int> Device::attribute(DeviceAttribute which) const {
  int value = 0;
  if (!library->call(api().deviceGetAttribute, &value, int(which), device))
    return std::nullopt;
  return value;
}

Expected<uint64_t> Device::freeBytes() const {
  size_t left = 0, total = 0;
  if (Status status = call(api().memGetInfo, &left, &total); !status)
    return status;
  return uint64_t(left);
}

/// An error of an allocation with what it was for.
static Status allocationError(const Status &status, uint64_t bytes, std::string_view what) {
  Error error = status.error();
  error.message += ": " + std::to_string(bytes) + " bytes for " + std::string(what);
  return error;
}

Expected<Memory> Device::allocate(uint64_t bytes, std::string_view what) const {
  if (bytes == 0)
    return Memory{};
  DevicePointer pointer = 0;
  if (Status status = call(api().memAlloc, &pointer, size_t(bytes)); !status)
    return allocationError(status, bytes, what);
  return Memory{Owned<DevicePointer>(shared_from_this(), pointer, &Api::memFree), bytes};
}

Expected<PinnedMemory> Device::allocatePinned(uint64_t bytes, std::string_view what) const {
  if (bytes == 0)
    return PinnedMemory{};
  void *memory = nullptr;
  if (Status status = call(api().memHostAlloc, &memory, size_t(bytes), 0u); !status)
    return allocationError(status, bytes, std::string(what) + " in pinned host memory");
  return PinnedMemory{Owned<void *>(shared_from_this(), memory, &Api::memFreeHost), bytes};
}

Expected<Stream> Device::makeStream() const {
  StreamHandle stream = nullptr;
  if (Status status = call(api().streamCreate, &stream, streamNonBlocking); !status)
    return status;
  return Stream(shared_from_this(), stream, &Api::streamDestroy);
}

} // namespace gemma::cuda
