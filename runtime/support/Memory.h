// One large allocation of pages, of a known size.
#pragma once

#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace gemma {

/// Zeroed memory from the system, aligned to 64 bytes at least (2 MiB if it is that large), asked
/// to be in huge pages. Returned when the object dies.
class PageMemory {
public:
  /// `what` names it in the error.
  static Expected<PageMemory> allocate(uint64_t bytes, std::string_view what);

  PageMemory() = default;
  PageMemory(PageMemory &&other) noexcept { swap(other); }
  PageMemory &operator=(PageMemory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~PageMemory();

  /// Makes the system give all of it now, which it else does page by page as they are written: what
  /// is there now cannot be missing later, and nothing waits for it later.
  Status populate(std::string_view what) const;

  std::byte *data() const { return start; }
  uint64_t size() const { return length; }
  std::span<std::byte> bytes() const { return {start, size_t(length)}; }

private:
  void swap(PageMemory &other) noexcept {
    std::swap(mapping, other.mapping);
    std::swap(mappedBytes, other.mappedBytes);
    std::swap(start, other.start);
    std::swap(length, other.length);
  }

  void *mapping = nullptr;
  size_t mappedBytes = 0;
  std::byte *start = nullptr;
  uint64_t length = 0;
};

} // namespace gemma
