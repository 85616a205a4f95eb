// Which host memory is the global memory of an emulated device.
#pragma once

#include "runtime/support/Status.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gemma::emu {

/// Calls `body(chunk, mask)` for every 16-byte chunk of the bytes: its number, address / 16, and a
/// bit for each of its bytes that is one of them.
template <typename Body> void forEachChunk(uint64_t address, uint64_t bytes, Body &&body) {
  for (uint64_t end = address + bytes; address < end;) {
    uint64_t chunk = address / 16, next = std::min(end, (chunk + 1) * 16);
    body(chunk, uint16_t(((1u << (next - address)) - 1) << (address % 16)));
    address = next;
  }
}

/// Which bytes of some memory were written, for threads that write and ask at the same time. Bytes
/// behind its end are passed over.
class WrittenBytes {
public:
  WrittenBytes(uint64_t begin, uint64_t end);

  void mark(uint64_t address, uint64_t bytes);
  void forget(uint64_t address, uint64_t bytes);
  /// The first of the bytes that nobody wrote; address + bytes if all were.
  uint64_t firstUnwritten(uint64_t address, uint64_t bytes) const;
  /// Whether any of the bytes was written.
  bool anyWritten(uint64_t address, uint64_t bytes) const;

private:
  /// forEachChunk() over those of the bytes that are before the end, with the chunk's bits first.
  template <typename Body> void forEach(uint64_t address, uint64_t bytes, Body &&body) const;

  uint64_t first, end; ///< number of the chunk that chunks[0] is about; one past the last byte
  std::unique_ptr<std::atomic<uint16_t>[]> chunks; ///< a bit a byte
};

/// The allocations that kernels may touch. What lies outside of all of them is out of bounds.
///
/// Not to be changed while a launch runs.
class GlobalMemory {
public:
  struct Region {
    uint64_t begin = 0;
    uint64_t end = 0; ///< one past the last byte
    std::string name;
    bool readOnly = false; ///< weights and tables: a store is an error, loads need no race check
    /// Null: all that is there may be read.
    std::shared_ptr<WrittenBytes> written = nullptr;
  };

  /// Declares memory that somebody else owns. Regions must not overlap.
  Status add(const void *memory, size_t bytes, std::string name, bool readOnly = false);
  /// Forgets a region given to add, or frees one made by allocate; false if there is none.
  bool remove(const void *memory);

  /// New memory of `bytes` bytes, 256-byte aligned, filled with 0xff (NaN in every float type) so
  /// that a read of what nobody wrote shows. Lives until remove() or the end of this object.
  Expected<void *> allocate(size_t bytes, std::string name, bool readOnly = false);

  /// From now on nothing in the region that begins there may be read before the host (wrote()) or a
  /// kernel has written it. False if no region begins there.
  bool track(const void *memory);
  /// Of a tracked region: the host has written these bytes; nobody has. Others: nothing happens.
  void wrote(const void *memory, size_t bytes);
  void forget(const void *memory, size_t bytes);

  /// The region that holds the address, or null.
  const Region *find(uint64_t address) const;

  const std::vector<Region> &regions() const { return sorted; }

private:
  struct Free {
    void operator()(void *memory) const;
  };
  /// Calls `body(written, address, bytes)` with what tracked regions have of the bytes.
  template <typename Body> void forEachTracked(const void *memory, size_t bytes, Body &&body) const;

  std::vector<Region> sorted; ///< by begin
  std::vector<std::unique_ptr<void, Free>> owned;
};

} // namespace gemma::emu
