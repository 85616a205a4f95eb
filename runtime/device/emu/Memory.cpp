// Loads and stores under observation, asynchronous copies, atomics and fences of a block.
#include "runtime/device/emu/Block.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace gemma::emu {

static std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

void Block::checkAlignment(Thread &thread, uint64_t address, uint32_t bytes, uint32_t site) {
  if (address & (bytes - 1))
    fail(thread, FindingKind::Misaligned, site, Findings::noSite,
         where(thread) + ": " + std::to_string(bytes) + " bytes at " + hex(address));
}

void Block::access(Thread &thread, uint64_t address, uint32_t bytes, uint32_t kind, uint32_t site) {
  finishStrongLoad(thread);
  if (kind & EmuAccessStrong) {
    orderedAccess(thread, address, kind);
    if (!(kind & EmuAccessWrite)) {
      thread.strongLoad = address;
      thread.strongKind = kind;
    }
  }
  if ((kind & EmuAccessShared) && !inSharedWindow(address))
    sharedAccess(thread, address, bytes, kind & EmuAccessWrite, false, site);
  touch(thread, address, bytes, kind & EmuAccessWrite, kind & EmuAccessStrong, site);
}

void Block::touch(Thread &thread, uint64_t address, uint32_t bytes, bool write, bool strong,
                  uint32_t site) {
  if (inSharedWindow(address)) {
    if (sharedAccess(thread, address, bytes, write, strong, site) && launch.options.counters)
      memoryCounters.access(thread.warp, thread.lane, thread.owner->live,
                            site - launch.kernel.firstSite, MemoryCounters::Shared, write, address,
                            bytes);
    return;
  }
  if (globalAccess(thread, address, bytes, write, strong, site) && launch.options.counters)
    memoryCounters.access(thread.warp, thread.lane, thread.owner->live,
                          site - launch.kernel.firstSite, MemoryCounters::Global, write, address,
                          bytes);
}

bool Block::sharedAccess(Thread &thread, uint64_t address, uint32_t bytes, bool write, bool strong,
                         uint32_t site) {
  if (launch.options.checkBounds) {
    if (!inShared(address, bytes))
      fail(thread, FindingKind::OutOfBounds, site, Findings::noSite,
           where(thread) + ": " + std::to_string(bytes) + " bytes at " +
               std::to_string(int64_t(address - sharedBase)) + " of " +
               std::to_string(sharedBytes) + " bytes of shared memory");
    checkAlignment(thread, address, bytes, site);
  }
  if (!launch.options.checkRaces)
    return true;
  forEachChunk(address - sharedBase, bytes, [&](uint64_t index, uint16_t mask) {
    ShadowChunk &chunk = shadow.chunk(index);
    if (chunk.pending & mask)
      report(FindingKind::AsyncNotWaited, site, chunk.pendingSite,
             where(thread) + (write ? " writes" : " reads") + " byte " +
                 std::to_string(index * 16) + " of shared memory");
    else if (!write && (mask & ~chunk.written))
      report(FindingKind::UnwrittenShared, site, Findings::noSite,
             where(thread) + " reads byte " +
                 std::to_string(index * 16 +
                                unsigned(std::countr_zero(unsigned(mask & ~chunk.written)))));
    chunk.check(thread.clock, mask, write, strong, [&](const AccessRecord &other, bool otherWrite) {
      report(FindingKind::SharedRace, site, other.site,
             where(thread) + (write ? " writes" : " reads") + " byte " +
                 std::to_string(index * 16) + " of shared memory, which thread " +
                 std::to_string(other.thread) + (otherWrite ? " wrote" : " read") +
                 " with no barrier between");
    });
    chunk.remember(thread.clock, mask, write, strong, site);
  });
  return true;
}

bool Block::globalAccess(Thread &thread, uint64_t address, uint32_t bytes, bool write, bool strong,
                         uint32_t site, bool isCopy) {
  const GlobalMemory::Region *region = lastRegion;
  if (!region || address < region->begin || address >= region->end)
    region = launch.memory.find(address);
  if (!region) {
    // A local variable by a generic address, or a parameter.
    uint64_t stack = reinterpret_cast<uint64_t>(thread.fiber.stackBottom);
    uint64_t param = reinterpret_cast<uint64_t>(thread.params);
    if ((address >= stack && address + bytes <= stack + thread.fiber.stackBytes) ||
        (!write && address >= param && address + bytes <= param + params.size()))
      return false;
    for (const Module::Global &global : launch.module.globals()) {
      uint64_t begin = reinterpret_cast<uint64_t>(global.memory);
      if (address >= begin && address + bytes <= begin + global.bytes &&
          !(write && global.constant))
        return false;
    }
  }
  if (launch.options.checkBounds) {
    if (!region)
      fail(thread, FindingKind::OutOfBounds, site, Findings::noSite,
           where(thread) + (write ? " writes " : " reads ") + std::to_string(bytes) + " bytes at " +
               hex(address) + ", in no allocation" + nearest(address));
    if (address + bytes > region->end)
      fail(thread, FindingKind::OutOfBounds, site, Findings::noSite,
           where(thread) + (write ? " writes " : " reads ") + std::to_string(bytes) + " bytes at " +
               std::to_string(address - region->begin) + " of " +
               std::to_string(region->end - region->begin) + " bytes of " + region->name);
    if (write && region->readOnly)
      fail(thread, FindingKind::ReadOnlyWrite, site, Findings::noSite,
           where(thread) + " writes to " + region->name);
    if (!isCopy) // of copies it is checked with the target's
      checkAlignment(thread, address, bytes, site);
  }
  lastRegion = region;
  if (!launch.options.checkRaces || !region || region->readOnly)
    return true;
  if (region->written) {
    if (write)
      region->written->mark(address, bytes);
    else
      checkWritten(thread, *region, address, bytes, site, isCopy);
  }
  forEachChunk(address, bytes, [&](uint64_t index, uint16_t mask) {
    GlobalShadow::Page &page = launch.globalShadow->page(index * 16);
    std::lock_guard lock(page.mutex);
    ShadowChunk &chunk = page.chunks[index % 256];
    chunk.check(thread.clock, mask, write, strong, [&](const AccessRecord &other, bool otherWrite) {
      report(FindingKind::GlobalRace, site, other.site,
             where(thread) + (write ? " writes" : " reads") + " byte " +
                 std::to_string(index * 16 - region->begin) + " of " + region->name + ", which " +
                 (otherWrite ? "was written" : "was read") + " by block " +
                 std::to_string(other.block) + " thread " + std::to_string(other.thread) +
                 " with nothing that orders the two");
    });
    chunk.remember(thread.clock, mask, write, strong, site);
  });
  return true;
}

/// A load must find all its bytes written. A copy to shared memory something in the sectors that it
/// brings: the keys of a page's first positions lie in them with those of later ones, which cost
/// nothing more.
void Block::checkWritten(Thread &thread, const GlobalMemory::Region &region, uint64_t address,
                         uint32_t bytes, uint32_t site, bool isCopy) {
  // Where only some blocks run, the others have written nothing.
  if (!launch.options.sampledBlocks.empty())
    return;
  constexpr uint64_t sector = 32;
  uint64_t sectors = std::max(region.begin, address / sector * sector);
  uint64_t sectorsEnd = std::min(region.end, (address + bytes + sector - 1) / sector * sector);
  if (isCopy && sectors < sectorsEnd && region.written->anyWritten(sectors, sectorsEnd - sectors))
    return;
  uint64_t missing = region.written->firstUnwritten(address, bytes);
  if (missing != address + bytes)
    report(FindingKind::UnwrittenGlobal, site, Findings::noSite,
           where(thread) + " reads byte " + std::to_string(missing - region.begin) + " of " +
               region.name);
}

/// Where the closest allocation lies, for a message.
std::string Block::nearest(uint64_t address) const {
  const GlobalMemory::Region *best = nullptr;
  for (const GlobalMemory::Region &region : launch.memory.regions())
    if (region.end <= address)
      best = &region;
  if (!best)
    return {};
  return "; " + std::to_string(address - best->end) + " bytes past the end of " + best->name;
}

// Asynchronous copies.

void Block::copyAsync(Thread &thread, AsyncCopy copy) {
  finishStrongLoad(thread);
  copy.sourceBytes = std::min(copy.sourceBytes, copy.bytes);
  copy.landed = false;
  bool counts = launch.options.counters;
  if (launch.options.checkBounds) {
    if (!inShared(copy.target, copy.bytes))
      fail(thread, FindingKind::OutOfBounds, copy.site, Findings::noSite,
           where(thread) + ": a copy of " + std::to_string(copy.bytes) + " bytes to " +
               std::to_string(int64_t(copy.target - sharedBase)) + " of " +
               std::to_string(sharedBytes) + " bytes of shared memory");
    checkAlignment(thread, copy.target, copy.bytes, copy.site);
    // Of a copy of zeros too, which reads nothing.
    checkAlignment(thread, copy.source, copy.bytes, copy.site);
  }
  if (copy.sourceBytes && (launch.options.checkBounds || launch.options.checkRaces || counts)) {
    globalAccess(thread, copy.source, copy.sourceBytes, false, false, copy.site, /*isCopy=*/true);
    if (counts)
      memoryCounters.access(thread.warp, thread.lane, thread.owner->live,
                            copy.site - launch.kernel.firstSite, MemoryCounters::Global, false,
                            copy.source, copy.sourceBytes);
  }
  if (launch.options.checkRaces)
    forEachChunk(copy.target - sharedBase, copy.bytes, [&](uint64_t index, uint16_t mask) {
      ShadowChunk &chunk = shadow.chunk(index);
      if (chunk.pending & mask)
        report(FindingKind::AsyncNotWaited, copy.site, chunk.pendingSite,
               where(thread) + " copies over byte " + std::to_string(index * 16) +
                   " of shared memory");
      chunk.check(thread.clock, mask, true, false, [&](const AccessRecord &other, bool wrote) {
        report(FindingKind::SharedRace, copy.site, other.site,
               where(thread) + " copies over byte " + std::to_string(index * 16) +
                   " of shared memory, which thread " + std::to_string(other.thread) +
                   (wrote ? " wrote" : " read") + " with no barrier between");
      });
      chunk.pending |= mask;
      chunk.pendingSite = copy.site;
    });
  thread.bytesInFlight += copy.bytes;
  thread.open.push_back(copy);
  ++pendingCopies;
  AsyncMode mode = launch.options.asyncMode;
  if (mode == AsyncMode::Earliest || (mode == AsyncMode::Random && random() % 4 == 0))
    land(thread, thread.open.back());
}

void Block::land(Thread &, AsyncCopy &copy) {
  if (copy.landed)
    return;
  copy.landed = true;
  --pendingCopies;
  auto *target = std::bit_cast<uint8_t *>(copy.target);
  std::memcpy(target, std::bit_cast<const void *>(copy.source), copy.sourceBytes);
  std::memset(target + copy.sourceBytes, 0, copy.bytes - copy.sourceBytes);
}

/// Random mode: some copies of some threads arrive now.
void Block::landSome() {
  Thread &thread = threads[random() % threadCount];
  for (AsyncCopy &copy : thread.open)
    if (random() % 4 == 0)
      land(thread, copy);
  for (std::vector<AsyncCopy> &group : thread.groups)
    for (AsyncCopy &copy : group)
      if (random() % 4 == 0)
        land(thread, copy);
}

void Block::copyCommit(Thread &thread) {
  thread.groups.push_back(std::move(thread.open));
  thread.open.clear();
}

void Block::copyWait(Thread &thread, uint32_t allowed, uint32_t site) {
  if (launch.options.counters) {
    size_t index = waitBase + thread.waits++;
    if (index >= counters.bytesInFlight.size())
      counters.bytesInFlight.resize(index + 1);
    counters.bytesInFlight[index] += thread.bytesInFlight;
  }
  auto finish = [&](std::vector<AsyncCopy> &group) {
    for (AsyncCopy &copy : group) {
      if (launch.options.checkRaces && copy.sourceBytes)
        // The source may be read as late as now.
        globalAccess(thread, copy.source, copy.sourceBytes, false, false, copy.site,
                     /*isCopy=*/true);
      land(thread, copy);
      thread.bytesInFlight -= copy.bytes;
      if (!launch.options.checkRaces)
        continue;
      forEachChunk(copy.target - sharedBase, copy.bytes, [&](uint64_t index, uint16_t mask) {
        ShadowChunk &chunk = shadow.chunk(index);
        chunk.pending &= uint16_t(~mask);
        chunk.remember(thread.clock, mask, true, false, copy.site);
      });
    }
  };
  bool all = allowed == ~0u;
  while (thread.groups.size() > (all ? 0 : allowed)) {
    finish(thread.groups.front());
    thread.groups.pop_front();
  }
  if (all) {
    finish(thread.open);
    thread.open.clear();
  }
  (void)site;
}

// Order.

SyncPoint &Block::syncAt(uint64_t address) {
  return inSharedWindow(address) ? shadow.sync[address] : launch.globalShadow->sync[address];
}

/// What strong loads and stores order: acquire and release by themselves, relaxed ones together
/// with the fence after the load or before the store.
void Block::orderedAccess(Thread &thread, uint64_t address, uint32_t kind) {
  if (!launch.options.checkRaces)
    return;
  std::lock_guard lock(launch.globalShadow->syncMutex);
  SyncPoint &sync = syncAt(address);
  ThreadClock &clock = thread.clock;
  if (kind & EmuAccessWrite) {
    if (kind & EmuAccessRelease)
      sync.add(clock.release(true));
    else if (clock.released)
      sync.add(*clock.released);
    return;
  }
  if (kind & EmuAccessAcquire)
    clock.acquire(sync, true);
  else
    clock.acquired.add(sync);
}

void Block::finishStrongLoad(Thread &thread) {
  if (uint64_t address = std::exchange(thread.strongLoad, 0))
    orderedAccess(thread, address, thread.strongKind);
}

void Block::fence(Thread &thread, uint32_t scope, uint32_t) {
  if (!launch.options.checkRaces)
    return;
  finishStrongLoad(thread);
  bool device = scope != EmuScopeBlock;
  ThreadClock &clock = thread.clock;
  clock.acquire(clock.acquired, device);
  clock.acquired.clear();
  clock.released = std::make_shared<const Snapshot>(clock.release(device));
}

template <typename T> static T combine(uint32_t kind, T old, T a, T b) {
  switch (kind) {
  case EmuAtomicAdd:
    if constexpr (std::is_floating_point_v<T>)
      return old + a;
    else
      return T(std::make_unsigned_t<T>(old) + std::make_unsigned_t<T>(a));
  case EmuAtomicMin:
    return std::min(old, a);
  case EmuAtomicMax:
    return std::max(old, a);
  case EmuAtomicExch:
    return a;
  case EmuAtomicCas:
    return old == a ? b : old;
  case EmuAtomicInc:
    return old >= a ? T(0) : T(old + 1);
  case EmuAtomicDec:
    return old == T(0) || old > a ? a : T(old - 1);
  default:
    break;
  }
  if constexpr (!std::is_floating_point_v<T>) {
    if (kind == EmuAtomicAnd)
      return old & a;
    if (kind == EmuAtomicOr)
      return old | a;
    if (kind == EmuAtomicXor)
      return old ^ a;
  }
  return old;
}

template <typename T>
static uint64_t update(uint32_t kind, uint64_t address, uint64_t a, uint64_t b) {
  auto narrow = [](uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  };
  T old;
  std::memcpy(&old, std::bit_cast<const void *>(address), sizeof old);
  T fresh = combine<T>(kind, old, narrow(a), narrow(b));
  std::memcpy(std::bit_cast<void *>(address), &fresh, sizeof fresh);
  uint64_t result = 0;
  std::memcpy(&result, &old, sizeof old);
  return result;
}

uint64_t Block::atomic(Thread &thread, uint32_t op, uint64_t address, uint64_t a, uint64_t b,
                       uint32_t site) {
  uint32_t type = op & EmuAtomicTypeMask, kind = op & EmuAtomicKindMask;
  finishStrongLoad(thread);
  // Threads that try again and again must not keep the one away that they wait for.
  if (++thread.atomics % 4 == 0)
    letOthersRun(thread, site);
  bool wide = type == EmuAtomicU64 || type == EmuAtomicS64 || type == EmuAtomicF64;
  if (const GlobalMemory::Region *region = launch.memory.find(address);
      region && region->written && launch.options.checkRaces)
    checkWritten(thread, *region, address, wide ? 8 : 4, site, /*isCopy=*/false);
  if (launch.options.checkBounds || launch.options.checkRaces)
    touch(thread, address, wide ? 8 : 4, true, true, site);
  std::unique_lock lock(launch.globalShadow->syncMutex);
  if (launch.options.checkRaces) {
    bool device = (op >> EmuAtomicScopeShift & 3) != EmuScopeBlock;
    ThreadClock &clock = thread.clock;
    SyncPoint &sync = syncAt(address);
    if (op & EmuAtomicAcquire)
      clock.acquire(sync, device);
    else
      clock.acquired.add(sync);
    if (op & EmuAtomicRelease)
      sync.add(clock.release(device));
    else if (clock.released)
      sync.add(*clock.released);
  }
  switch (type) {
  case EmuAtomicU32:
    return update<uint32_t>(kind, address, a, b);
  case EmuAtomicS32:
    return update<int32_t>(kind, address, a, b);
  case EmuAtomicU64:
    return update<uint64_t>(kind, address, a, b);
  case EmuAtomicS64:
    return update<int64_t>(kind, address, a, b);
  case EmuAtomicF32:
    return update<float>(kind, address, a, b);
  default:
    return update<double>(kind, address, a, b);
  }
}

} // namespace gemma::emu
