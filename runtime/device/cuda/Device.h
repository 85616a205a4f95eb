// A CUDA device: what it is, and the memory and streams that come from it.
#pragma once

#include "runtime/device/cuda/Library.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gemma::cuda {

class Device;

/// A handle of the driver, given back when the object dies. Errors of giving back are dropped: they
/// repeat those of earlier work, which somebody has waited for.
template <typename Handle> class Owned {
public:
  using Release = Entry<Handle> Api::*;

  Owned() = default;
  Owned(std::shared_ptr<const Device> device, Handle handle, Release release)
      : device(std::move(device)), handle(handle), release(release) {}
  Owned(Owned &&other) noexcept { swap(other); }
  Owned &operator=(Owned &&other) noexcept {
    swap(other);
    return *this;
  }
  ~Owned();

  Handle get() const { return handle; }

private:
  void swap(Owned &other) noexcept {
    std::swap(device, other.device);
    std::swap(handle, other.handle);
    std::swap(release, other.release);
  }
  std::shared_ptr<const Device> device;
  Handle handle{};
  Release release = nullptr;
};

/// Memory of the device, aligned to 256 bytes. Its addresses mean nothing on the host.
struct Memory {
  Owned<DevicePointer> handle;
  uint64_t bytes = 0;

  DevicePointer pointer() const { return handle.get(); }
};

/// Memory of the host that the device copies from and to by itself.
struct PinnedMemory {
  Owned<void *> handle;
  uint64_t bytes = 0;

  std::byte *data() const { return static_cast<std::byte *>(handle.get()); }
};

using Stream = Owned<StreamHandle>;

/// What a device is and can do.
struct DeviceFacts {
  std::string name;         ///< "NVIDIA H200"
  int major = 0, minor = 0; ///< compute capability
  uint64_t memoryBytes = 0;
  uint64_t sharedBytesPerBlock = 0; ///< the most, dynamic shared memory asked for
  uint32_t threadsPerBlock = 0;
  uint32_t blocksPerGrid = 0; ///< along x
  uint32_t multiprocessors = 0;
  int driverVersion = 0; ///< 1000 · major + 10 · minor of the newest CUDA it runs
};

class Device : public std::enable_shared_from_this<Device> {
public:
  /// Opens the library and the device of that number and retains its primary context. Refused: no
  /// driver, a driver older than CUDA 12.0, no such device.
  static Expected<std::shared_ptr<const Device>> open(int ordinal);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  const DeviceFacts &facts() const { return known; }
  /// "cuda:0 (NVIDIA H200)".
  std::string title() const;
  const Api &api() const { return library->api(); }

  /// Makes this device's context the calling thread's, for libraries that work in that.
  Status makeCurrent() const { return located(library->call(api().ctxSetCurrent, context)); }

  /// Calls an entry point with this device's context current.
  template <typename... Args, typename... Given>
  Status call(const Entry<Args...> &entry, Given... given) const {
    if (Status status = library->call(api().ctxSetCurrent, context); !status)
      return located(status);
    return located(library->call(entry, given...));
  }

  /// The same; `result` is set to what the entry point returned.
  template <typename... Args, typename... Given>
  Status callFor(Result &result, const Entry<Args...> &entry, Given... given) const {
    if (Status status = library->call(api().ctxSetCurrent, context); !status)
      return located(status);
    result = entry.function(given...);
    return result == Success ? Status() : located(library->error(entry.name, result));
  }

  /// Calls an entry point that gives a handle back, on a device that is lost too.
  template <typename Handle> void giveBack(const Entry<Handle> &entry, Handle handle) const {
    (void)library->call(api().ctxSetCurrent, context);
    (void)library->call(entry, handle);
  }

  /// Something more about it, for reports; nothing where the driver does not say.
  std::optional<int> attribute(DeviceAttribute which) const;
  /// Bytes that can still be allocated.
  Expected<uint64_t> freeBytes() const;
  /// `what` names it in the error. What is in it is undefined.
  Expected<Memory> allocate(uint64_t bytes, std::string_view what) const;
  Expected<PinnedMemory> allocatePinned(uint64_t bytes, std::string_view what) const;
  Expected<Stream> makeStream() const;

private:
  Device(std::shared_ptr<const Library> library, int ordinal)
      : library(std::move(library)), ordinal(ordinal) {}
  Status prepare();
  /// An error with the device's name in front.
  Status located(const Status &status) const;

  std::shared_ptr<const Library> library;
  int ordinal;
  DeviceHandle device = 0;
  ContextHandle context = nullptr;
  DeviceFacts known;
};

template <typename Handle> Owned<Handle>::~Owned() {
  if (device)
    device->giveBack(device->api().*release, handle);
}

} // namespace gemma::cuda
