// The threads that run kernels.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace gemma {

/// A fixed number of threads, the caller's included, that run one grid of blocks after another.
///
/// Threads claim ranges of blocks, each a part of what is left, down to few blocks: a thread which
/// the system has taken off its core delays nobody by more than its range, and otherwise all are
/// done at about the same time. Threads are never pinned. A worker without work spins a while, then
/// yields, then sleeps: an idle pool takes no processor time.
class WorkerPool {
public:
  /// Runs blocks [begin, end) of the current grid; `worker` is 0 .. threads() - 1, and no two
  /// calls at the same time have the same one.
  using Body = void (*)(void *context, uint64_t begin, uint64_t end, unsigned worker);

  explicit WorkerPool(unsigned threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool &) = delete;
  WorkerPool &operator=(const WorkerPool &) = delete;

  unsigned threads() const { return unsigned(workers.size()) + 1; }

  /// Calls `body` on ranges that cover [0, blocks) once; returns when all are done. Not to be
  /// called by two threads at once. Everything written before is seen by the body, and everything
  /// it writes is seen after.
  void run(uint64_t blocks, Body body, void *context);

  /// The same for a callable (begin, end, worker).
  template <typename Callable> void run(uint64_t blocks, Callable &&callable) {
    using Plain = std::remove_reference_t<Callable>;
    run(
        blocks,
        [](void *context, uint64_t begin, uint64_t end, unsigned worker) {
          (*static_cast<Plain *>(context))(begin, end, worker);
        },
        const_cast<void *>(static_cast<const void *>(&callable)));
  }

  /// The cores that this process may use.
  static unsigned availableThreads();

private:
  void workerLoop(unsigned worker);
  /// Takes ranges of the job `epoch` until there are none.
  void work(uint32_t epoch, unsigned worker);
  uint64_t waitForJob(uint64_t seen);

  // A job is published by storing `ticket` = epoch << 32 | next chunk. A thread claims chunks by
  // counting them up; if the job's fields it read were those of another epoch, that fails.
  alignas(64) std::atomic<uint64_t> ticket{0};
  alignas(64) std::atomic<uint64_t> chunksDone{0};
  alignas(64) std::atomic<uint64_t> jobBlocks{0};
  std::atomic<uint64_t> jobChunkBlocks{1};
  std::atomic<uint32_t> jobChunks{0};
  std::atomic<Body> jobBody{nullptr};
  std::atomic<void *> jobContext{nullptr};
  alignas(64) std::atomic<uint32_t> sleepers{0};
  std::atomic<uint32_t> wakeups{0};
  std::atomic<bool> stopping{false};
  std::vector<std::thread> workers;
};

} // namespace gemma
