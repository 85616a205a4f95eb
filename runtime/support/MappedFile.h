// A file mapped read-only into memory.
#pragma once

#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace gemma {

/// The bytes of a regular file. They stay where they are until the object dies; moving it does not
/// move them. The size is that at opening; a file that somebody truncates later faults (SIGBUS).
class MappedFile {
public:
  static Expected<MappedFile> open(const std::filesystem::path &path);

  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept { swap(other); }
  MappedFile &operator=(MappedFile &&other) noexcept {
    swap(other);
    return *this;
  }
  ~MappedFile();

  uint64_t size() const { return length; }
  std::span<const std::byte> bytes() const { return {start, length}; }
  /// Bytes [offset, offset + count), which must lie in the file.
  std::span<const std::byte> bytes(uint64_t offset, uint64_t count) const {
    return bytes().subspan(offset, count);
  }

  /// Hints for a range, clipped to the file: it will be read once from front to back; it will be
  /// read soon; its pages are not needed any more (they are read again when touched).
  void adviseSequential(uint64_t offset, uint64_t count) const;
  void adviseWillNeed(uint64_t offset, uint64_t count) const;
  void adviseDontNeed(uint64_t offset, uint64_t count) const;

private:
  void advise(uint64_t offset, uint64_t count, int advice, bool wholePagesOnly) const;
  void swap(MappedFile &other) noexcept {
    std::swap(start, other.start);
    std::swap(length, other.length);
  }

  const std::byte *start = nullptr;
  size_t length = 0;
};

} // namespace gemma
