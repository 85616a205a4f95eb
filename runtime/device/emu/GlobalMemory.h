// Which host memory is the global memory of an emulated device.
#pragma once

#include "runtime/support/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gemma::emu {

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
  };

  /// Declares memory that somebody else owns. Regions must not overlap.
  Status add(const void *memory, size_t bytes, std::string name, bool readOnly = false);
  /// Forgets a region given to add, or frees one made by allocate; false if there is none.
  bool remove(const void *memory);

  /// New memory of `bytes` bytes, 256-byte aligned, filled with 0xff (NaN in every float type) so
  /// that a read of what nobody wrote shows. Lives until remove() or the end of this object.
  Expected<void *> allocate(size_t bytes, std::string name, bool readOnly = false);

  /// The region that holds the address, or null.
  const Region *find(uint64_t address) const;

  const std::vector<Region> &regions() const { return sorted; }

private:
  struct Free {
    void operator()(void *memory) const;
  };
  std::vector<Region> sorted; ///< by begin
  std::vector<std::unique_ptr<void, Free>> owned;
};

} // namespace gemma::emu
