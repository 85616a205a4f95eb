// Copies of any length between the host's memory and a device's.
#pragma once

#include "runtime/device/cuda/Device.h"

#include <array>
#include <span>

namespace gemma::cuda {

/// Two pinned buffers with a stream each: while one is being copied by the device, the host fills
/// or reads the other.
class Staging {
public:
  static Expected<Staging> create(std::shared_ptr<const Device> device, uint64_t bufferBytes);
  Staging(Staging &&) = default;
  Staging &operator=(Staging &&) = default;
  /// Waits: a buffer may not go while the device copies from it.
  ~Staging();

  /// Begins a copy; the host's bytes may change as soon as this returns.
  Status upload(DevicePointer to, std::span<const std::byte> from);
  /// Returns when all uploads have ended.
  Status finish();
  /// Copies and waits.
  Status download(std::span<std::byte> to, DevicePointer from);

private:
  struct Half {
    PinnedMemory buffer;
    Stream stream;
  };
  Staging() = default;
  Status wait(const Half &half) const;

  std::shared_ptr<const Device> device;
  std::array<Half, 2> halves;
  size_t next = 0;
};

} // namespace gemma::cuda
