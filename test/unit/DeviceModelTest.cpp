// Blocks that a multiprocessor holds, by the rules of NVIDIA's occupancy calculator.
#include "tools/compiler/DeviceModel.h"

#include <gtest/gtest.h>

using namespace gemma::compiler;

namespace {

int64_t blocks(const char *chip, BlockNeeds needs) {
  const DeviceModel *model = findDeviceModel(chip);
  EXPECT_TRUE(model) << chip;
  return model ? blocksOfProcessor(*model, needs) : -1;
}

TEST(DeviceModel, ThreadsAndBlocksLimit) {
  EXPECT_EQ(blocks("sm_90", {.threads = 1024}), 2);
  EXPECT_EQ(blocks("sm_90", {.threads = 32}), 32);
  EXPECT_EQ(blocks("sm_120", {.threads = 32}), 24);
  EXPECT_EQ(blocks("sm_120", {.threads = 1024}), 1);
  EXPECT_EQ(blocks("sm_80", {.threads = 480}), 4);
}

TEST(DeviceModel, RegistersLimit) {
  EXPECT_EQ(blocks("sm_80", {.threads = 128, .registers = 64}), 8);
  EXPECT_EQ(blocks("sm_80", {.threads = 128, .registers = 65}), 7); // as 72
  EXPECT_EQ(blocks("sm_80", {.threads = 128, .registers = 128}), 4);
  EXPECT_EQ(blocks("sm_80", {.threads = 128, .registers = 255}), 2);
  EXPECT_EQ(blocks("sm_80", {.threads = 256, .registers = 255}), 1);
  EXPECT_EQ(blocks("sm_80", {.threads = 1024, .registers = 80}), 0);
}

TEST(DeviceModel, SharedMemoryLimits) {
  // 1 KiB of every block is the system's.
  EXPECT_EQ(blocks("sm_80", {.threads = 128, .sharedBytes = 81 << 10}), 2);
  EXPECT_EQ(blocks("sm_80", {.threads = 128, .sharedBytes = (81 << 10) + 1}), 1);
  EXPECT_EQ(blocks("sm_90", {.threads = 128, .sharedBytes = 113 << 10}), 2);
  EXPECT_EQ(blocks("sm_120", {.threads = 128, .sharedBytes = 99 << 10}), 1);
  EXPECT_EQ(blocks("sm_120", {.threads = 128, .sharedBytes = (99 << 10) + 1}), 0);
}

TEST(DeviceModel, UnknownArchitectureHasNone) { EXPECT_FALSE(findDeviceModel("sm_75")); }

} // namespace
