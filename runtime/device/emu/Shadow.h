// Who touched which bytes last, and what orders two accesses: vector clocks.
//
// An access is ordered before another one if a chain of barriers, warp synchronisations, and
// release/acquire pairs leads from the first to the second. Every thread counts its releases (its
// clock) and knows for every other thread the clock up to which that thread's accesses are ordered
// before its own. See Flanagan and Freund, "FastTrack: Efficient and Precise Dynamic Race
// Detection", PLDI 2009.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace gemma::emu {

/// What a thread knows about the others: for its own block a clock for each thread, for other
/// blocks the same where a release has been acquired. Immutable once shared.
struct Knowledge {
  std::vector<uint32_t> clocks;
  std::map<uint32_t, std::shared_ptr<const std::vector<uint32_t>>> foreign;

  void join(const Knowledge &other);
  void joinForeign(uint32_t block, const std::vector<uint32_t> &other);
};

/// What a release publishes.
struct Snapshot {
  std::shared_ptr<const Knowledge> known;
  uint32_t block = 0, thread = 0, clock = 0;
  bool device = false; ///< orders threads of other blocks too
};

/// The last release of each thread at one address; a later one of a thread includes its earlier.
class SyncPoint {
public:
  void add(const Snapshot &snapshot) {
    latest[uint64_t(snapshot.block) << 16 | snapshot.thread] = snapshot;
  }
  void add(const SyncPoint &other) {
    for (const auto &[thread, snapshot] : other.latest)
      latest[thread] = snapshot;
  }
  void clear() { latest.clear(); }
  const std::map<uint64_t, Snapshot> &snapshots() const { return latest; }

private:
  std::map<uint64_t, Snapshot> latest;
};

class ThreadClock {
public:
  void reset(uint32_t blockNumber, uint32_t threadNumber, uint32_t threadsOfBlock) {
    block = blockNumber;
    thread = threadNumber;
    threads = threadsOfBlock;
    now = 1;
    known.reset();
    released.reset();
    acquired.clear();
  }

  /// Whether everything that thread did up to `clock` comes before what this thread does now.
  bool knows(uint32_t otherBlock, uint32_t otherThread, uint32_t clock) const {
    if (otherBlock == block)
      return otherThread == thread || (known && clock <= known->clocks[otherThread]);
    return known && knowsForeign(otherBlock, otherThread, clock);
  }

  /// Everything so far is ordered before what follows an acquire of the result.
  Snapshot release(bool device);
  void acquire(const SyncPoint &point, bool device);

  uint32_t block = 0, thread = 0, threads = 0;
  uint32_t now = 1;
  std::shared_ptr<const Knowledge> known;
  /// Of the last fence: what a relaxed atomic after it publishes.
  std::shared_ptr<const Snapshot> released;
  /// Read by relaxed atomics, in force from the next fence on.
  SyncPoint acquired;

private:
  void joinSnapshot(Knowledge &joined, const Snapshot &snapshot, bool foreign) const;
  bool knowsForeign(uint32_t otherBlock, uint32_t otherThread, uint32_t clock) const;
};

/// A barrier: all of `clocks` know what each of them did.
void synchronise(const std::vector<ThreadClock *> &clocks);

/// One remembered access to some bytes of a 16-byte chunk.
struct AccessRecord {
  uint32_t clock = 0;
  uint32_t site = 0;
  uint32_t block = 0;
  uint16_t thread = 0;
  uint16_t mask = 0;
  bool strong = false;
};

/// The accesses to one 16-byte chunk that may still race with one to come.
struct ShadowChunk {
  uint32_t generation = 0;
  uint16_t written = 0;
  uint16_t pending = 0; ///< bytes that a cp.async will write
  uint32_t pendingSite = 0;
  std::vector<AccessRecord> writes, reads;

  void clear() {
    written = pending = 0;
    writes.clear();
    reads.clear();
  }

  /// Calls `race(record)` for each remembered access that is not ordered before this one, without
  /// remembering it.
  template <typename Race>
  void check(const ThreadClock &clock, uint16_t mask, bool write, bool strong, Race &&race) const {
    for (const AccessRecord &record : writes)
      if ((record.mask & mask) && !(record.strong && strong) &&
          !clock.knows(record.block, record.thread, record.clock))
        race(record, true);
    if (write)
      for (const AccessRecord &record : reads)
        if ((record.mask & mask) && !(record.strong && strong) &&
            !clock.knows(record.block, record.thread, record.clock))
          race(record, false);
  }

  void remember(const ThreadClock &clock, uint16_t mask, bool write, bool strong, uint32_t site);
};

/// The shadow of a block's shared memory.
class SharedShadow {
public:
  void resize(uint64_t bytes) { chunks.resize((bytes + 15) / 16); }
  /// Forgets everything.
  void nextBlock() {
    ++generation;
    sync.clear();
  }
  ShadowChunk &chunk(uint64_t index) {
    ShadowChunk &result = chunks[index];
    if (result.generation != generation) {
      result.clear();
      result.generation = generation;
    }
    return result;
  }
  /// What was released at an address.
  std::map<uint64_t, SyncPoint> sync;

private:
  std::vector<ShadowChunk> chunks;
  uint32_t generation = 0;
};

/// The shadow of global memory, shared by all blocks of a launch.
class GlobalShadow {
public:
  struct Page {
    std::mutex mutex;
    ShadowChunk chunks[256];
  };
  /// The page that holds the address; made if it is not there.
  Page &page(uint64_t address);

  /// Guards `sync`. Held while an atomic is carried out.
  std::mutex syncMutex;
  std::map<uint64_t, SyncPoint> sync;

private:
  static constexpr unsigned shards = 64;
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;
  };
  Shard table[shards];
};

} // namespace gemma::emu
