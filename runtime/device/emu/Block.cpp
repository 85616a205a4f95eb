#include "runtime/device/emu/Block.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <sys/mman.h>

namespace gemma::emu {

Block::Block(LaunchState &launch, uint64_t seed) : launch(launch), random(seed) {
  memoryCounters.counters = &counters;
}

Block::~Block() {
  if (window)
    ::munmap(window, windowBytes);
}

/// Memory below 4 GiB at a multiple of its size: shared addresses have 32 bits.
static uint8_t *mapWindow(uint64_t bytes) {
  for (uint64_t place = uint64_t(1) << 30; place + bytes <= uint64_t(1) << 32; place += bytes) {
    void *wished = std::bit_cast<void *>(place);
    void *got = ::mmap(wished, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == wished)
      return static_cast<uint8_t *>(got);
    if (got != MAP_FAILED) // a kernel without MAP_FIXED_NOREPLACE takes it for a wish
      ::munmap(got, bytes);
  }
  return nullptr;
}

Status Block::prepare() {
  threadCount = launch.block[0] * launch.block[1] * launch.block[2];
  window = mapWindow(windowBytes);
  if (!window || !stacks.reserve(threadCount))
    return badInput("emulated device: the system has no memory for shared memory and stacks");
  sharedBase = reinterpret_cast<uint64_t>(window);
  sharedBytes = launch.kernel.staticShared + launch.dynamicShared;
  threads = std::make_unique<Thread[]>(threadCount);
  params.assign(launch.params.begin(), launch.params.end());
  if (launch.options.checkRaces)
    shadow.resize(sharedBytes);
  return {};
}

void Block::run(uint64_t linear) {
  blockNumber = uint32_t(linear);
  live = threadCount;
  warps.assign((threadCount + 31) / 32, {});
  for (Barrier &barrier : barriers)
    barrier = {};
  ready.clear();
  pendingCopies = 0;
  // Whatever a block leaves in shared memory is not what the next one finds.
  std::memset(window, 0xff, sharedBytes);
  if (launch.options.checkRaces)
    shadow.nextBlock();
  bool observe = launch.options.checkBounds || launch.options.checkRaces || launch.options.counters;
  if (launch.options.counters)
    memoryCounters.prepare(warps.size(), launch.kernel.endSite - launch.kernel.firstSite);
  uint32_t ctaid[3] = {uint32_t(linear % launch.grid[0]),
                       uint32_t(linear / launch.grid[0] % launch.grid[1]),
                       uint32_t(linear / launch.grid[0] / launch.grid[1])};
  for (uint32_t i = 0; i < threadCount; ++i) {
    Thread &thread = threads[i];
    static_cast<EmuThread &>(thread) = {};
    thread.table = &emuTable;
    thread.params = reinterpret_cast<uint8_t *>(params.data());
    thread.shared = window;
    thread.budget = slice;
    thread.granted = uint64_t(slice);
    thread.observe = observe;
    thread.lane = i % 32;
    thread.warp = i / 32;
    thread.smid = blockNumber % 132;
    thread.tid[0] = i % launch.block[0];
    thread.tid[1] = i / launch.block[0] % launch.block[1];
    thread.tid[2] = i / launch.block[0] / launch.block[1];
    for (int d = 0; d < 3; ++d) {
      thread.ntid[d] = launch.block[d];
      thread.nctaid[d] = launch.grid[d];
      thread.ctaid[d] = ctaid[d];
    }
    thread.dynamicShared = launch.dynamicShared;
    thread.totalShared = uint32_t(sharedBytes);
    thread.block = this;
    thread.owner = &warps[i / 32];
    thread.owner->live |= 1u << thread.lane;
    thread.owner->lanes[thread.lane] = &thread;
    thread.number = i;
    thread.done = false;
    thread.waitSite = Findings::noSite;
    thread.atBarrier = false;
    thread.open.clear();
    thread.groups.clear();
    thread.bytesInFlight = 0;
    thread.atomics = 0;
    thread.strongLoad = 0;
    thread.waits = 0;
    thread.clock.reset(blockNumber, i, threadCount);
    stacks.assign(i, thread.fiber);
    thread.fiber.owner = &thread;
    thread.fiber.prepare(threadMain);
    ready.push_back(&thread);
  }
  size_t firstWait = counters.bytesInFlight.size();
  waitBase = firstWait;
  Thread *first = takeReady();
  Fiber::change(home, first->fiber);
  if (launch.options.counters)
    memoryCounters.flush();
  uint64_t instructions = 0;
  for (uint32_t i = 0; i < threadCount; ++i)
    instructions += uint64_t(int64_t(threads[i].granted) - threads[i].budget);
  ++counters.blocks;
  counters.instructions += instructions;
  counters.maxBlockInstructions = std::max(counters.maxBlockInstructions, instructions);
}

void Block::threadMain(Fiber *fiber) {
  auto *thread = static_cast<Thread *>(fiber->owner);
  Block &block = *thread->block;
  block.launch.kernel.function(thread);
  block.threadEnds(*thread);
}

void Block::threadEnds(Thread &thread) {
  thread.done = true;
  // Copies that nobody waited for arrive at some time.
  for (auto *group : {&thread.open})
    for (AsyncCopy &copy : *group)
      land(thread, copy);
  for (std::vector<AsyncCopy> &group : thread.groups)
    for (AsyncCopy &copy : group)
      land(thread, copy);
  --live;
  Warp &warp = *thread.owner;
  warp.live &= ~(1u << thread.lane);
  // Instructions of a warp wait for its living lanes only.
  for (size_t i = 0; i < warp.groups.size();) {
    const WarpGroup &group = warp.groups[i];
    if (((group.arrived | ~warp.live) & group.mask) == group.mask)
      completeGroup(warp, i, nullptr);
    else
      ++i;
  }
  if (ready.empty()) {
    if (live)
      explainDeadlock();
    Fiber::change(thread.fiber, home, /*fromEnds=*/true);
  }
  Thread *next = takeReady();
  change(thread.fiber, *next, true);
  __builtin_trap();
}

Thread *Block::takeReady() {
  if (ready.empty())
    return nullptr;
  if (launch.options.order == Order::Forward) {
    Thread *first = ready.front();
    ready.pop_front();
    return first;
  }
  if (launch.options.order == Order::Random) {
    size_t index = random() % ready.size();
    std::swap(ready[index], ready.back());
  }
  Thread *last = ready.back();
  ready.pop_back();
  return last;
}

void Block::change(Fiber &from, Thread &to, bool ends) {
  ++counters.switches;
  Fiber::change(from, to.fiber, ends);
}

void Block::leave(Thread &thread) {
  Fiber::change(thread.fiber, home, /*fromEnds=*/true);
  __builtin_trap();
}

void Block::suspend(Thread &thread, uint32_t site) {
  thread.waitSite = site;
  if (pendingCopies && launch.options.asyncMode == AsyncMode::Random && random() % 8 == 0)
    landSome();
  if (launch.stopped.load(std::memory_order_relaxed))
    leave(thread);
  Thread *next = takeReady();
  if (!next) {
    explainDeadlock();
    leave(thread);
  }
  if (next != &thread)
    change(thread.fiber, *next, false);
  thread.waitSite = Findings::noSite;
}

std::string Block::where(const Thread &thread) const {
  return "block (" + std::to_string(thread.ctaid[0]) + ", " + std::to_string(thread.ctaid[1]) +
         ", " + std::to_string(thread.ctaid[2]) + ") thread " + std::to_string(thread.number);
}

void Block::fail(Thread &thread, FindingKind kind, uint32_t site, uint32_t otherSite,
                 std::string detail) {
  report(kind, site, otherSite, detail);
  // This frame is never left, so nothing else would free it.
  std::string().swap(detail);
  launch.stopped = true;
  leave(thread);
}

/// Nobody can go on: says who waits for whom.
void Block::explainDeadlock() {
  launch.stopped = true;
  uint32_t exited = 0;
  for (uint32_t i = 0; i < threadCount; ++i)
    exited += threads[i].done;
  std::string others =
      std::to_string(exited) + " of " + std::to_string(threadCount) + " threads have ended";
  bool explained = false;
  for (uint32_t id = 0; id < 16; ++id) {
    const Barrier &barrier = barriers[id];
    if (barrier.waiting.empty())
      continue;
    const Thread &one = *barrier.waiting.front();
    // Another place where living threads wait instead.
    uint32_t otherSite = Findings::noSite;
    for (uint32_t i = 0; i < threadCount; ++i)
      if (!threads[i].done && threads[i].waitSite != one.waitSite)
        otherSite = threads[i].waitSite;
    report(FindingKind::DivergentBarrier, one.waitSite, otherSite,
           where(one) + ": " + std::to_string(barrier.arrived) + " of " +
               std::to_string(barrier.expected) + " threads are at barrier " + std::to_string(id) +
               ", " + others);
    explained = true;
  }
  for (const Warp &warp : warps)
    for (const WarpGroup &group : warp.groups) {
      const Thread &one = *warp.lanes[__builtin_ctz(group.arrived)];
      // Where a lane that they wait for waits itself.
      uint32_t otherSite = Findings::noSite;
      for (uint32_t rest = group.mask & ~group.arrived & warp.live; rest; rest &= rest - 1)
        otherSite = std::min(otherSite, warp.lanes[__builtin_ctz(rest)]->waitSite);
      report(explained ? FindingKind::NoProgress : FindingKind::DivergentWarp, group.site,
             otherSite,
             where(one) + ": lanes " + hexMask(group.arrived) + " of " + hexMask(group.mask) +
                 " wait, " + others);
      explained = true;
      break;
    }
  if (!explained)
    report(FindingKind::NoProgress, Findings::noSite, Findings::noSite, others);
}

std::string Block::hexMask(uint32_t mask) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

void Block::outOfBudget(Thread &thread) {
  if (thread.granted >= launch.options.instructionLimit)
    fail(thread, FindingKind::NoProgress, Findings::noSite, Findings::noSite,
         where(thread) + " has executed " + std::to_string(thread.granted) + " instructions");
  thread.granted += uint64_t(slice);
  thread.budget += slice;
  if (launch.stopped.load(std::memory_order_relaxed))
    leave(thread);
  // It may be waiting in a loop for something that another thread will write.
  letOthersRun(thread, Findings::noSite);
}

void Block::letOthersRun(Thread &thread, uint32_t site) {
  if (ready.empty())
    return;
  // Behind all others in the order in which they are taken.
  if (launch.options.order == Order::Forward)
    ready.push_back(&thread);
  else
    ready.push_front(&thread);
  suspend(thread, site);
}

/// An .aligned barrier is one instruction for all lanes of a warp. (Lanes that only arrive go on,
/// here one before the other.)
void Block::checkAligned(Thread &thread, uint32_t site) {
  for (const Thread *other : thread.owner->lanes)
    if (other && other->atBarrier && other->waitSite != site)
      fail(thread, FindingKind::DivergentBarrier, site, other->waitSite,
           where(thread) + ": comes to a barrier while lane " + std::to_string(other->lane) +
               " of its warp waits at another one");
}

uint32_t Block::barrier(Thread &thread, uint32_t kind, uint32_t id, uint32_t count,
                        uint32_t predicate, uint32_t site) {
  finishStrongLoad(thread);
  if (id >= 16)
    fail(thread, FindingKind::Trap, site, Findings::noSite,
         where(thread) + ": barrier " + std::to_string(id) + " of 16");
  if (count % 32 || count > threadCount + 31)
    fail(thread, FindingKind::DivergentBarrier, site, Findings::noSite,
         where(thread) + ": a barrier of " + std::to_string(count) + " threads in a block of " +
             std::to_string(threadCount));
  Barrier &barrier = barriers[id];
  uint32_t expected = count ? std::min(count, threadCount) : threadCount;
  if (barrier.arrived && barrier.expected != expected)
    fail(thread, FindingKind::DivergentBarrier, site,
         barrier.waiting.empty() ? Findings::noSite : barrier.waiting.front()->waitSite,
         where(thread) + ": barrier " + std::to_string(id) + " for " + std::to_string(expected) +
             " threads while others wait for " + std::to_string(barrier.expected));
  bool waits = (kind & EmuBarrierKindMask) != EmuBarrierArrive;
  if (waits && kind & EmuBarrierAligned)
    checkAligned(thread, site);
  barrier.expected = expected;
  barrier.kind = kind;
  barrier.reduction += predicate != 0;
  barrier.any |= predicate != 0;
  barrier.all &= predicate != 0;
  barrier.joined.push_back(&thread);
  thread.out = 0;
  if (++barrier.arrived == expected) {
    thread.waitSite = site;
    completeBarrier(thread, barrier, site);
    return thread.out;
  }
  if (!waits)
    return 0;
  barrier.waiting.push_back(&thread);
  thread.atBarrier = kind & EmuBarrierAligned;
  suspend(thread, site);
  return thread.out;
}

void Block::completeBarrier(Thread &last, Barrier &barrier, uint32_t site) {
  ++counters.barriers;
  if (barrier.kind & EmuBarrierAligned) {
    // All lanes of a warp must have come by the same instruction.
    for (Thread *waiting : barrier.waiting)
      for (uint32_t lane = 0; lane < 32; ++lane) {
        Thread *other = waiting->owner->lanes[lane];
        if (other && !other->done && other->waitSite != waiting->waitSite &&
            std::find(barrier.joined.begin(), barrier.joined.end(), other) != barrier.joined.end())
          fail(last, FindingKind::DivergentBarrier, waiting->waitSite, other->waitSite,
               where(*waiting) + ": lanes of one warp come to a barrier by different instructions");
      }
  }
  uint32_t result = 0;
  switch (barrier.kind & EmuBarrierKindMask) {
  case EmuBarrierPopc:
    result = barrier.reduction;
    break;
  case EmuBarrierAnd:
    result = barrier.all;
    break;
  case EmuBarrierOr:
    result = barrier.any;
    break;
  default:
    break;
  }
  last.out = result;
  if (launch.options.checkRaces) {
    std::vector<ThreadClock *> clocks;
    clocks.reserve(barrier.joined.size());
    for (Thread *thread : barrier.joined)
      clocks.push_back(&thread->clock);
    synchronise(clocks);
  }
  if (launch.options.counters && barrier.expected == threadCount)
    memoryCounters.flush();
  for (Thread *thread : barrier.waiting) {
    thread->out = result;
    thread->atBarrier = false;
    makeReady(*thread);
  }
  barrier = {};
  (void)site;
}

void Block::rendezvous(Thread &thread, uint32_t key, uint32_t mask, uint32_t site,
                       void (*complete)(Block &, Warp &, uint32_t, uint32_t)) {
  finishStrongLoad(thread);
  Warp &warp = *thread.owner;
  uint32_t self = 1u << thread.lane;
  if (!(mask & self))
    fail(thread, FindingKind::DivergentWarp, site, Findings::noSite,
         where(thread) + ": lane " + std::to_string(thread.lane) + " is not in its own mask " +
             hexMask(mask));
  size_t index = 0;
  for (; index < warp.groups.size(); ++index) {
    const WarpGroup &group = warp.groups[index];
    if (group.key == key && group.mask == mask)
      break;
    // They wait for this lane, which has come to another place.
    if (group.mask & self)
      fail(thread, FindingKind::DivergentWarp, site, group.site,
           where(thread) + ": mask " + hexMask(mask) + " while lanes " + hexMask(group.arrived) +
               " of " + hexMask(group.mask) + " wait at another instruction");
  }
  if (index == warp.groups.size())
    warp.groups.push_back({key, mask, 0, site, complete});
  WarpGroup &group = warp.groups[index];
  group.arrived |= self;
  if (((group.arrived | ~warp.live) & mask) == mask)
    return completeGroup(warp, index, &thread);
  suspend(thread, site);
}

void Block::completeGroup(Warp &warp, size_t index, Thread *last) {
  WarpGroup group = warp.groups[index];
  warp.groups.erase(warp.groups.begin() + ptrdiff_t(index));
  group.complete(*this, warp, group.arrived, group.site);
  for (uint32_t rest = group.arrived; rest; rest &= rest - 1) {
    Thread *thread = warp.lanes[__builtin_ctz(rest)];
    if (thread != last)
      makeReady(*thread);
  }
}

void Block::warpSynchronised(Warp &warp, uint32_t lanes) {
  if (!launch.options.checkRaces)
    return;
  std::vector<ThreadClock *> clocks;
  for (uint32_t rest = lanes; rest; rest &= rest - 1)
    clocks.push_back(&warp.lanes[__builtin_ctz(rest)]->clock);
  synchronise(clocks);
}

} // namespace gemma::emu
