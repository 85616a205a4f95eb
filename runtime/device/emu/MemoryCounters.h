// Counts memory traffic a warp instruction at a time, although lanes run one after another.
#pragma once

#include "runtime/device/emu/Counters.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace gemma::emu {

/// The n-th execution of an instruction by a lane belongs together with the n-th executions by the
/// other lanes of its warp since the last barrier of the block.
class MemoryCounters {
public:
  enum Space : uint8_t { Global, Shared };

  void prepare(size_t warps, size_t sites);
  void access(uint32_t warp, uint32_t lane, uint32_t live, size_t site, Space space, bool write,
              uint64_t address, uint32_t bytes);
  /// Rows of a matrix that a warp loads at once: one pass is ideal.
  void matrix(const uint64_t *rows);
  /// Counts groups that will get no more lanes.
  void flush();

  Counters *counters = nullptr;

private:
  struct Group {
    uint32_t lanes = 0;
    uint32_t bytes = 0;
    Space space = Global;
    uint64_t addresses[32];
  };
  struct Site {
    std::deque<Group> groups;
    size_t done = 0; ///< groups already counted and dropped
    size_t next[32] = {};
    bool touched = false;
  };
  void count(const Group &group);
  void countGlobal(const Group &group);
  void countShared(const Group &group);

  std::vector<std::vector<Site>> table; ///< [warp][site]
  std::vector<Site *> touched;
};

} // namespace gemma::emu
