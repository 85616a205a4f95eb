#include "runtime/device/WorkerPool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <numeric>

using namespace gemma;

namespace {

TEST(WorkerPool, RunsEveryBlockOnce) {
  for (unsigned threads : {1u, 2u, 3u, 7u}) {
    WorkerPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (uint64_t blocks : {0u, 1u, 2u, 5u, 16u, 17u, 1000u}) {
      std::vector<std::atomic<int>> runs(blocks);
      pool.run(blocks, [&](uint64_t begin, uint64_t end, unsigned worker) {
        ASSERT_LT(worker, threads);
        ASSERT_LT(begin, end);
        for (uint64_t i = begin; i < end; ++i)
          runs[i].fetch_add(1, std::memory_order_relaxed);
      });
      for (uint64_t i = 0; i < blocks; ++i)
        ASSERT_EQ(runs[i].load(), 1) << i << " of " << blocks;
    }
  }
}

// Nobody waits long for the last range: ranges shrink from a part of a thread's share to few
// blocks.
TEST(WorkerPool, RangesShrink) {
  for (unsigned threads : {2U, 3U, 8U}) {
    WorkerPool pool(threads);
    for (uint64_t blocks : {15U, 30U, 120U, 960U, 100000U}) {
      std::vector<uint64_t> ends(blocks, 0); // of the range that begins there
      pool.run(blocks, [&](uint64_t begin, uint64_t end, unsigned) { ends[begin] = end; });
      uint64_t finest = blocks / (uint64_t(threads) * 64) + 1, before = blocks;
      for (uint64_t begin = 0; begin < blocks; begin = ends[begin]) {
        ASSERT_GT(ends[begin], begin);
        uint64_t size = ends[begin] - begin;
        EXPECT_LE(size, std::max(finest, (blocks - begin) / (uint64_t(threads) * 4) + finest));
        EXPECT_LE(size, before);
        before = ends[begin] == blocks ? before : size; // the last may be cut
        if (ends[begin] == blocks) {
          EXPECT_LE(size, finest);
        }
      }
    }
  }
}

// Every launch sees what the one before wrote, also with more threads than cores and with pauses
// in which workers fall asleep.
TEST(WorkerPool, LaunchesAreOrdered) {
  WorkerPool pool(5);
  std::vector<uint64_t> values(331, 1), next(331);
  for (int launch = 0; launch < 3000; ++launch) {
    pool.run(values.size(), [&](uint64_t begin, uint64_t end, unsigned) {
      for (uint64_t i = begin; i < end; ++i)
        next[i] = values[i] + values[(i + 1) % values.size()] % 1000;
    });
    values.swap(next);
    if (launch % 1000 == 999)
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  std::vector<uint64_t> expected(331, 1), other(331);
  for (int launch = 0; launch < 3000; ++launch) {
    for (size_t i = 0; i < expected.size(); ++i)
      other[i] = expected[i] + expected[(i + 1) % expected.size()] % 1000;
    expected.swap(other);
  }
  EXPECT_EQ(values, expected);
}

TEST(WorkerPool, WorkersDoNotShareTheirNumber) {
  WorkerPool pool(4);
  std::vector<std::atomic<int>> inside(4);
  for (int launch = 0; launch < 300; ++launch)
    pool.run(64, [&](uint64_t, uint64_t, unsigned worker) {
      ASSERT_EQ(inside[worker].fetch_add(1), 0);
      inside[worker].fetch_sub(1);
    });
}

TEST(WorkerPool, IdleTakesNoProcessorTime) {
  WorkerPool pool(4);
  pool.run(64, [](uint64_t, uint64_t, unsigned) {});
  // Long enough for spinning and yielding to end, even on a busy machine.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  timespec before, after;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  double used =
      double(after.tv_sec - before.tv_sec) + 1e-9 * double(after.tv_nsec - before.tv_nsec);
  EXPECT_LT(used, 0.02);
}

} // namespace
