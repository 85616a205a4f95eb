// The execution of one block after another by one worker: its threads as fibers, its shared memory,
// its barriers.
//
// A thread runs until it waits (barrier, warp instruction) or ends, and then hands over to the next
// ready thread directly. Whoever completes what others wait for makes them ready.
#pragma once

#include "runtime/abi/EmuAbi.h"
#include "runtime/device/emu/Counters.h"
#include "runtime/device/emu/Fiber.h"
#include "runtime/device/emu/Launch.h"
#include "runtime/device/emu/MemoryCounters.h"
#include "runtime/device/emu/Shadow.h"

#include <atomic>
#include <cstdio>
#include <deque>
#include <memory>
#include <random>

namespace gemma::emu {

class Block;
class GlobalShadow;
struct Thread;

/// What all workers of a launch share.
struct LaunchState {
  const Module &module;
  const Module::Kernel &kernel;
  const GlobalMemory &memory;
  const LaunchOptions &options;
  std::array<uint32_t, 3> grid;
  std::array<uint32_t, 3> block;
  uint32_t dynamicShared;
  std::span<const std::byte> params;
  Findings findings;
  std::atomic<bool> stopped{false};
  GlobalShadow *globalShadow = nullptr;
};

/// A cp.async on its way.
struct AsyncCopy {
  uint64_t target, source;
  uint32_t bytes, sourceBytes, site;
  bool landed;
};

/// Lanes that have come to an instruction which they must execute together.
struct WarpGroup {
  uint32_t key = 0; ///< what makes instructions the same: the kind with its modifiers, or the place
  uint32_t mask = 0;
  uint32_t arrived = 0;
  uint32_t site = 0;
  void (*complete)(Block &, struct Warp &, uint32_t lanes, uint32_t site) = nullptr;
};

struct Warp {
  uint32_t live = 0; ///< lanes that have not ended
  Thread *lanes[32] = {};
  std::vector<WarpGroup> groups;
};

struct Thread : EmuThread {
  Fiber fiber;
  Block *block = nullptr;
  Warp *owner = nullptr;
  uint32_t number = 0; ///< in the block
  bool done = false;
  uint64_t granted = 0;                 ///< instructions, see EmuThread::budget
  uint32_t waitSite = Findings::noSite; ///< of the instruction it waits at
  bool atBarrier = false;               ///< waits at an .aligned barrier
  // Operands and results of warp instructions.
  uint64_t in[3] = {};
  uint32_t out = 0;
  // Asynchronous copies.
  /// Of the last strong load: it is carried out after the device was told of it, so what other
  /// threads released in between is acquired when it is told of the next thing. 0: none.
  uint64_t strongLoad = 0;
  uint32_t strongKind = 0;
  uint32_t atomics = 0; ///< carried out, see Block::letOthersRun
  std::vector<AsyncCopy> open;
  std::deque<std::vector<AsyncCopy>> groups;
  uint64_t bytesInFlight = 0;
  size_t waits = 0;
  ThreadClock clock;
};

class Block {
public:
  Block(LaunchState &launch, uint64_t seed);
  ~Block();
  Block(const Block &) = delete;

  /// Maps shared memory and stacks; an error if the system has none.
  Status prepare();
  /// Runs a block to its end, or until the launch is stopped.
  void run(uint64_t linear);

  // What the table of callbacks uses.
  void access(Thread &thread, uint64_t address, uint32_t bytes, uint32_t kind, uint32_t site);
  void outOfBudget(Thread &thread);
  uint32_t barrier(Thread &thread, uint32_t kind, uint32_t id, uint32_t count, uint32_t predicate,
                   uint32_t site);
  void copyAsync(Thread &thread, AsyncCopy copy);
  void copyCommit(Thread &thread);
  void copyWait(Thread &thread, uint32_t groups, uint32_t site);
  uint64_t atomic(Thread &thread, uint32_t op, uint64_t address, uint64_t a, uint64_t b,
                  uint32_t site);
  void fence(Thread &thread, uint32_t scope, uint32_t site);
  /// Waits until all lanes of `mask` have come to an instruction of the same `key`; the last one
  /// calls `complete` for all.
  void rendezvous(Thread &thread, uint32_t key, uint32_t mask, uint32_t site,
                  void (*complete)(Block &, Warp &, uint32_t, uint32_t));
  void warpSynchronised(Warp &warp, uint32_t lanes);

  void report(FindingKind kind, uint32_t site, uint32_t otherSite, const std::string &detail) {
    launch.findings.add(kind, site, otherSite, detail);
  }
  /// Reports and stops the launch. Does not return.
  [[noreturn]] void fail(Thread &thread, FindingKind kind, uint32_t site, uint32_t otherSite,
                         std::string detail);
  std::string where(const Thread &thread) const;
  /// Whether the bytes lie in this block's shared memory.
  bool inShared(uint64_t address, uint64_t bytes) const {
    return address >= sharedBase && address - sharedBase + bytes <= sharedBytes;
  }
  bool inSharedWindow(uint64_t address) const { return address - sharedBase < windowBytes; }

  Counters counters;

private:
  struct Barrier {
    uint32_t arrived = 0;
    uint32_t expected = 0;
    uint32_t reduction = 0;
    bool any = false, all = true;
    uint32_t kind = 0;
    std::vector<Thread *> waiting;
    std::vector<Thread *> joined; ///< waiting ones and those that only arrived
  };

  static void threadMain(Fiber *fiber);
  static std::string hexMask(uint32_t mask);
  void threadEnds(Thread &thread);
  void makeReady(Thread &thread) { ready.push_back(&thread); }
  Thread *takeReady();
  /// Lets the other ready threads run for a while.
  void letOthersRun(Thread &thread, uint32_t site);
  /// Lets others run until somebody makes this thread ready.
  void suspend(Thread &thread, uint32_t site);
  void change(Fiber &from, Thread &to, bool ends);
  [[noreturn]] void leave(Thread &thread);
  void explainDeadlock();
  void checkAligned(Thread &thread, uint32_t site);
  void completeBarrier(Thread &last, Barrier &barrier, uint32_t site);
  void completeGroup(Warp &warp, size_t index, Thread *last);

  /// Checks and counts a load or store wherever its address points.
  void touch(Thread &thread, uint64_t address, uint32_t bytes, bool write, bool strong,
             uint32_t site);
  bool sharedAccess(Thread &thread, uint64_t address, uint32_t bytes, bool write, bool strong,
                    uint32_t site);
  bool globalAccess(Thread &thread, uint64_t address, uint32_t bytes, bool write, bool strong,
                    uint32_t site, bool isCopy = false);
  void checkWritten(Thread &thread, const GlobalMemory::Region &region, uint64_t address,
                    uint32_t bytes, uint32_t site, bool isCopy);
  /// Acquires what the last strong load has seen.
  void finishStrongLoad(Thread &thread);
  void orderedAccess(Thread &thread, uint64_t address, uint32_t kind);
  SyncPoint &syncAt(uint64_t address);
  std::string nearest(uint64_t address) const;
  void checkAlignment(Thread &thread, uint64_t address, uint32_t bytes, uint32_t site);
  friend struct WarpInstructions;
  void land(Thread &thread, AsyncCopy &copy);
  void landSome();

  static constexpr uint64_t windowBytes = 256 << 10;
  static constexpr int64_t slice = 20000; ///< instructions between looks at the budget

  LaunchState &launch;
  std::mt19937_64 random;
  StackPool stacks;
  Fiber home;
  std::unique_ptr<Thread[]> threads;
  uint32_t threadCount = 0;
  std::vector<Warp> warps;
  Barrier barriers[16];
  std::deque<Thread *> ready;
  uint32_t live = 0;
  uint8_t *window = nullptr;
  uint64_t sharedBase = 0, sharedBytes = 0;
  uint32_t blockNumber = 0;
  std::vector<std::byte> params;
  const GlobalMemory::Region *lastRegion = nullptr;
  size_t pendingCopies = 0;
  size_t waitBase = 0; ///< of this block in counters.bytesInFlight
  SharedShadow shadow;
  MemoryCounters memoryCounters;
};

/// The callbacks that generated code gets.
extern const EmuTable emuTable;

} // namespace gemma::emu
