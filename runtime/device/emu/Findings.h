// What an emulated launch did wrong.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace gemma::emu {

class Module;

enum class FindingKind {
  SharedRace,       ///< two threads of a block, no barrier between, one writes
  GlobalRace,       ///< two threads of a launch, nothing orders them, one writes
  UnwrittenShared,  ///< a read of shared bytes that nothing has written in this block
  UnwrittenGlobal,  ///< a read of bytes of global memory that nobody has written
  AsyncNotWaited,   ///< an access to bytes of a cp.async that has not been waited for
  OutOfBounds,      ///< outside every allocation, or outside of shared memory
  ReadOnlyWrite,    ///< a store to weights or tables
  Misaligned,       ///< an address that its access size does not divide
  DivergentBarrier, ///< threads wait at a barrier that others have left, passed by or joined
                    ///< elsewhere
  DivergentWarp,    ///< lanes that must execute an instruction together do not
  NoProgress,       ///< everybody waits, or the instruction budget is spent
  Trap,             ///< the kernel gave up by itself
};

const char *name(FindingKind kind);

struct Finding {
  FindingKind kind = FindingKind::Trap;
  std::string kernel;
  std::string node;       ///< the spec node given with the launch
  unsigned line = 0;      ///< of the PTX, from 1
  std::string text;       ///< of that line
  unsigned otherLine = 0; ///< of the other access of a race, the copy, the other barrier; 0: none
  std::string otherText;
  std::string detail; ///< address, thread, block ...
  uint64_t count = 1; ///< how often the same pair of instructions did it

  /// One line: kind, kernel, node, lines and detail.
  std::string message() const;
};

/// Collects findings of all workers; one entry for each kind and pair of instructions.
class Findings {
public:
  /// `nodes`: nodes[i - 1] is what the instructions after `.loc 1 i 0` compute; `node` is said
  /// where there is none.
  Findings(const Module &module, std::string kernel, std::string node,
           std::vector<std::string> nodes)
      : module(module), kernel(std::move(kernel)), node(std::move(node)), nodes(std::move(nodes)) {}

  static constexpr uint32_t noSite = ~0u;
  void add(FindingKind kind, uint32_t site, uint32_t otherSite, const std::string &detail);
  std::vector<Finding> take();

private:
  const Module &module;
  std::string kernel, node;
  std::vector<std::string> nodes;
  std::mutex mutex;
  std::map<std::tuple<FindingKind, uint32_t, uint32_t>, Finding> found;
};

} // namespace gemma::emu
