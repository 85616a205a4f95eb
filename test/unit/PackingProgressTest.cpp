// What somebody sees who packs weights for longer than two seconds.
#include "tools/driver/PackingProgress.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>

using gemma::driver::PackingProgress;

namespace {

constexpr uint64_t gib = 1 << 30;

/// What is written to stderr, a file here, when half of 4 GiB is packed after `seconds`, then all.
std::string shown(int seconds, bool quiet) {
  testing::internal::CaptureStderr();
  {
    PackingProgress progress(quiet, PackingProgress::Clock::now() - std::chrono::seconds(seconds));
    progress.update(2 * gib, 4 * gib);
    progress.update(4 * gib, 4 * gib); // too soon for another line
  }
  return testing::internal::GetCapturedStderr();
}

TEST(PackingProgress, ShowsSharesOfWhatTakesLonger) {
  EXPECT_EQ(shown(3, false), "packing weights:  50 % of 4.00 GiB\n");
}

TEST(PackingProgress, IsSilentAtFirstAndWhenAskedToBe) {
  EXPECT_EQ(shown(0, false), "");
  EXPECT_EQ(shown(3, true), "");
}

} // namespace
