#include "runtime/device/WorkerPool.h"

#include <algorithm>
#include <sched.h>

namespace gemma {

/// Looks before a waiting thread yields its core: some 10 µs, longer than the gap between launches.
static constexpr int spins = 2000;
/// Yields before it sleeps: at least some 100 µs, much longer when others use the core. Waking a
/// sleeper costs more than a launch, so this outlasts what the caller does between steps.
static constexpr int yields = 2000;
/// Most chunks of a job for each thread, and how many claims of a thread what is left is worth: a
/// claim takes many chunks at first and single ones at the end (Polychronopoulos and Kuck, "Guided
/// self-scheduling", 1987), so that all threads are done at about the same time.
static constexpr unsigned chunksPerThread = 64, claimsPerThread = 4;
/// The next chunk of a job whose fields are being written: nobody may claim.
static constexpr uint32_t closed = UINT32_MAX;

static void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

unsigned WorkerPool::availableThreads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    return unsigned(std::max(1, CPU_COUNT(&set)));
  return std::max(1u, std::thread::hardware_concurrency());
}

WorkerPool::WorkerPool(unsigned threads) {
  for (unsigned worker = 1; worker < threads; ++worker)
    workers.emplace_back([this, worker] { workerLoop(worker); });
}

WorkerPool::~WorkerPool() {
  stopping.store(true);
  wakeups.fetch_add(1);
  wakeups.notify_all();
  for (std::thread &thread : workers)
    thread.join();
}

void WorkerPool::run(uint64_t blocks, Body body, void *context) {
  if (blocks == 0)
    return;
  if (blocks == 1 || workers.empty()) {
    body(context, 0, blocks, 0);
    return;
  }
  uint64_t wanted = std::min<uint64_t>(blocks, uint64_t(threads()) * chunksPerThread);
  uint64_t chunkBlocks = (blocks + wanted - 1) / wanted;
  uint32_t chunks = uint32_t((blocks + chunkBlocks - 1) / chunkBlocks);
  // The last job is over, but a late thread may be looking at its fields. Closing the ticket makes
  // its claim fail; that it is an exchange orders the looks of those that claimed before us before
  // the writes below.
  uint32_t epoch = uint32_t(ticket.load(std::memory_order_relaxed) >> 32) + 1;
  ticket.exchange(uint64_t(epoch) << 32 | closed);
  chunksDone.store(0, std::memory_order_relaxed);
  jobBlocks.store(blocks, std::memory_order_relaxed);
  jobChunkBlocks.store(chunkBlocks, std::memory_order_relaxed);
  jobBody.store(body, std::memory_order_relaxed);
  jobContext.store(context, std::memory_order_relaxed);
  jobChunks.store(chunks, std::memory_order_relaxed);
  ticket.store(uint64_t(epoch) << 32);
  if (sleepers.load() != 0) {
    wakeups.fetch_add(1);
    wakeups.notify_all();
  }
  work(epoch, 0);
  for (int round = 0; chunksDone.load(std::memory_order_acquire) != chunks; ++round) {
    if (round < spins)
      pause();
    else
      ::sched_yield();
  }
}

void WorkerPool::work(uint32_t epoch, unsigned worker) {
  for (;;) {
    uint64_t seen = ticket.load(std::memory_order_acquire);
    uint64_t chunk = uint32_t(seen), chunks = jobChunks.load(std::memory_order_relaxed);
    if (uint32_t(seen >> 32) != epoch || chunk >= chunks)
      return;
    // Read the job before claiming: the claim proves that it was this epoch's.
    uint64_t blocks = jobBlocks.load(std::memory_order_relaxed);
    uint64_t chunkBlocks = jobChunkBlocks.load(std::memory_order_relaxed);
    Body body = jobBody.load(std::memory_order_relaxed);
    void *context = jobContext.load(std::memory_order_relaxed);
    uint64_t share = (chunks - chunk) / (uint64_t(threads()) * claimsPerThread);
    uint64_t count = std::max<uint64_t>(1, share);
    if (!ticket.compare_exchange_weak(seen, seen + count, std::memory_order_acq_rel))
      continue;
    uint64_t begin = chunk * chunkBlocks;
    body(context, begin, std::min(blocks, begin + count * chunkBlocks), worker);
    chunksDone.fetch_add(count, std::memory_order_release);
  }
}

/// Waits until there is a job of another epoch than `seen`'s; its ticket.
uint64_t WorkerPool::waitForJob(uint64_t seen) {
  uint64_t now = seen;
  auto arrived = [&] {
    now = ticket.load();
    return (now >> 32 != seen >> 32 && uint32_t(now) != closed) ||
           stopping.load(std::memory_order_relaxed);
  };
  for (int i = 0; i < spins; ++i) {
    if (arrived())
      return now;
    pause();
  }
  for (int i = 0; i < yields; ++i) {
    if (arrived())
      return now;
    ::sched_yield();
  }
  for (;;) {
    // Announce, then look again: a job published in between finds a sleeper or is seen here.
    uint32_t before = wakeups.load();
    sleepers.fetch_add(1);
    if (!arrived())
      wakeups.wait(before);
    sleepers.fetch_sub(1);
    if (arrived())
      return now;
  }
}

void WorkerPool::workerLoop(unsigned worker) {
  uint64_t seen = 0;
  while (!stopping.load(std::memory_order_relaxed)) {
    seen = waitForJob(seen);
    work(uint32_t(seen >> 32), worker);
  }
}

} // namespace gemma
