#include "runtime/device/cuda/Staging.h"

#include <algorithm>
#include <cstring>

namespace gemma::cuda {

Expected<Staging> Staging::create(std::shared_ptr<const Device> device, uint64_t bufferBytes) {
  Staging staging;
  staging.device = std::move(device);
  for (Half &half : staging.halves) {
    Expected<PinnedMemory> buffer = staging.device->allocatePinned(bufferBytes, "copies");
    if (!buffer)
      return buffer.status();
    half.buffer = std::move(*buffer);
    Expected<Stream> stream = staging.device->makeStream();
    if (!stream)
      return stream.status();
    half.stream = std::move(*stream);
  }
  return staging;
}

Staging::~Staging() {
  // An error here was, or will be, somebody's who waits for the copies' effect.
  for (const Half &half : halves)
    if (half.stream.get())
      (void)wait(half);
}

Status Staging::wait(const Half &half) const {
  return device->call(device->api().streamSynchronize, half.stream.get());
}

Status Staging::upload(DevicePointer to, std::span<const std::byte> from) {
  while (!from.empty()) {
    Half &half = halves[next];
    next = 1 - next;
    if (Status status = wait(half); !status)
      return status;
    size_t bytes = std::min(from.size(), size_t(half.buffer.bytes));
    std::memcpy(half.buffer.data(), from.data(), bytes);
    if (Status status =
            device->call(device->api().memcpyToDevice, to,
                         static_cast<const void *>(half.buffer.data()), bytes, half.stream.get());
        !status)
      return status;
    from = from.subspan(bytes);
    to += bytes;
  }
  return {};
}

Status Staging::finish() {
  for (const Half &half : halves)
    if (Status status = wait(half); !status)
      return status;
  return {};
}

Status Staging::download(std::span<std::byte> to, DevicePointer from) {
  Half &half = halves[next];
  if (Status status = finish(); !status)
    return status;
  while (!to.empty()) {
    size_t bytes = std::min(to.size(), size_t(half.buffer.bytes));
    if (Status status =
            device->call(device->api().memcpyToHost, static_cast<void *>(half.buffer.data()), from,
                         bytes, half.stream.get());
        !status)
      return status;
    if (Status status = wait(half); !status)
      return status;
    std::memcpy(to.data(), half.buffer.data(), bytes);
    to = to.subspan(bytes);
    from += bytes;
  }
  return {};
}

} // namespace gemma::cuda
