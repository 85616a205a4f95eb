// Series of rounds and budgets of gemma-bench.
#include "tools/gemma-bench/Budget.h"
#include "tools/gemma-bench/BusyProcesses.h"
#include "tools/measure/Limits.h"
#include "tools/measure/Measure.h"

#include "gtest/gtest.h"

#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <unistd.h>

using namespace gemma;
using namespace gemma::bench;

TEST(Series, MedianAndBest) {
  EXPECT_EQ(Series{}.median(), 0);
  EXPECT_EQ(Series{}.best(), 0);
  EXPECT_EQ((Series{{3, 1, 2}}.median()), 2);
  EXPECT_EQ((Series{{4, 1, 2, 3}}.median()), 2.5);
  EXPECT_EQ((Series{{4, 1, 2, 3}}.best()), 4);
  EXPECT_EQ((Series{{1, 4, 2}}.steadiness()), 0.5);
}

TEST(Series, RatiosAreTakenRoundByRound) {
  // The machine is half as fast in the second round, in both: the ratio does not see it.
  Series rate{{10, 5, 10}}, limit{{20, 10, 20}};
  EXPECT_EQ(ratio(rate, limit).values, (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(ratio(rate, Series{{20}}).values, (std::vector<double>{0.5}));
}

TEST(Series, BestRoundsCountAboveAndBelow) {
  Series rate{{10, 8, 9}}, limit{{20, 10, 12}};
  Share share(rate, limit);
  EXPECT_EQ(share.best, 0.5);
  EXPECT_EQ(share.median, 0.75);
  EXPECT_EQ(Share(rate, Series{}).best, 0);
}

TEST(BusyProcesses, ShareOfTheCores) {
  EXPECT_EQ(fairShare(2, 2, 0), 1);
  EXPECT_EQ(fairShare(2, 2, 1), 2.0 / 3);
  EXPECT_EQ(fairShare(2, 1, 1), 1); // a core for each
  EXPECT_EQ(fairShare(2, 4, 4), 0.5);
  EXPECT_EQ(fairShare(8, 4, 4), 1);
}

/// Clock ticks of processor that a process has taken (proc(5), stat's utime).
static long ticksOf(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string word;
  for (int i = 0; i < 13; ++i)
    file >> word;
  long ticks = -1;
  file >> ticks;
  return ticks;
}

TEST(BusyProcesses, SpinWhileTheyAreLetAndEndWithTheObject) {
  pid_t child = 0;
  {
    Expected<BusyProcesses> busy = BusyProcesses::start(1);
    ASSERT_TRUE(busy) << busy.error().message;
    ASSERT_EQ(busy->count(), 1);
    child = busy->processes().front();
    long before = ticksOf(child);
    ASSERT_GE(before, 0);
    ::usleep(50'000);
    EXPECT_EQ(ticksOf(child), before); // standing still
    busy->spin(true);
    for (int i = 0; i < 1000 && ticksOf(child) < before + 3; ++i)
      ::usleep(10'000);
    EXPECT_GE(ticksOf(child), before + 3);
  }
  EXPECT_EQ(::kill(child, 0), -1);
}

TEST(Budget, WithinAndExceeded) {
  Expected<BudgetCheck> budget = BudgetCheck::open("compile");
  ASSERT_TRUE(budget) << budget.error().message;
  budget->check("a model", "cpu_seconds", 29.5);
  budget->check("a model", "no_such_budget", 1e9);
  Json report;
  EXPECT_TRUE(budget->finish(report));
  ASSERT_EQ(report["budget"].size(), 1u);
  EXPECT_TRUE(report["budget"][0]["ok"].get<bool>());

  budget->check("a model", "decode_launches_per_layer", 6);
  Status status = budget->finish(report);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::BadInput);
  EXPECT_EQ(status.error().message,
            "budget exceeded: a model decode_launches_per_layer: expected at most 5, got 6");
}

TEST(Budget, LowerBoundsAndNothingCompared) {
  Expected<BudgetCheck> budget = BudgetCheck::open("limits");
  ASSERT_TRUE(budget) << budget.error().message;
  Json report;
  EXPECT_FALSE(budget->finish(report)); // a check that compared nothing is none
  budget->check("this machine", "steadiness", 0.1);
  Status status = budget->finish(report);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("expected at least 0.5, got 0.1"), std::string::npos);
  EXPECT_FALSE(BudgetCheck::open("no section"));
}

// Every loop that this processor runs does what it says.
TEST(LimitLoops, ReadCopyAndMultiplyAdd) {
  constexpr size_t bytes = 64 << 10;
  Expected<PageMemory> memory = PageMemory::allocate(3 * bytes, "test");
  ASSERT_TRUE(memory);
  char *from = reinterpret_cast<char *>(memory->data());
  for (size_t i = 0; i < bytes; ++i)
    from[i] = char(i * 37 + i / 251);
  uint64_t expected = 0;
  for (size_t i = 0; i < bytes; i += 8) {
    uint64_t word;
    std::memcpy(&word, from + i, 8);
    expected ^= word;
  }
  std::vector<const LimitLoops *> loops = {&limitLoopsSse2};
  if (&bestLimitLoops() != &limitLoopsSse2)
    loops.push_back(&bestLimitLoops());
  for (const LimitLoops *loop : loops) {
    SCOPED_TRACE(loop->isa);
    EXPECT_EQ(loop->read(from, bytes), expected);
    EXPECT_EQ(loop->readPrefetched(from, bytes), expected);
    EXPECT_EQ(loop->readSpread(from, bytes), expected);
    EXPECT_EQ(loop->readSpreadPrefetched(from, bytes), expected);
    for (auto *copy : {loop->copy, loop->copyStreaming}) {
      char *to = from + bytes;
      std::memset(to, 0, 2 * bytes);
      copy(to, from, bytes);
      EXPECT_EQ(std::memcmp(to, from, bytes), 0);
      EXPECT_EQ(to[bytes], 0);
    }
    float sum = loop->multiplyAdd(1000);
    EXPECT_TRUE(std::isfinite(sum) && sum > 1) << sum;
  }
}
