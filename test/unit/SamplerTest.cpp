#include "runtime/engine/Sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

using namespace gemma;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

std::map<int32_t, int> histogram(const SamplingOptions &options, const std::vector<double> &logits,
                                 int draws = 20000) {
  Sampler sampler(options);
  std::map<int32_t, int> counts;
  for (int i = 0; i < draws; ++i)
    ++counts[sampler.sample(logits)];
  return counts;
}

TEST(Argmax, IsAlwaysAValidId) {
  EXPECT_EQ(argmax(std::vector<double>{1, 3, 3, 2}), 1);
  EXPECT_EQ(argmax(std::vector<double>{nan, nan, -5, nan}), 2);
  EXPECT_EQ(argmax(std::vector<double>{nan, nan}), 0);
  EXPECT_EQ(argmax(std::vector<double>{-inf, -inf}), 0);
  EXPECT_EQ(argmax(std::vector<double>{-inf, inf, nan}), 1);
}

TEST(LogSumExp, IsStable) {
  EXPECT_DOUBLE_EQ(logSumExp(std::vector<double>{1000, 1000}), 1000 + std::log(2));
  EXPECT_DOUBLE_EQ(logSumExp(std::vector<double>{-1000, -1000, nan}), -1000 + std::log(2));
}

TEST(Sampler, GreedyNeedsNoSeed) {
  for (uint64_t seed : {0u, 1u, 2u})
    EXPECT_EQ(Sampler({0, 0, 1, 0, seed}).sample(std::vector<double>{1, 5, 4}), 1);
}

TEST(Sampler, FollowsTheDistribution) {
  // p = 0.6, 0.3, 0.1 at temperature 1.
  std::vector<double> logits = {std::log(0.3), std::log(0.6), std::log(0.1)};
  auto counts = histogram({1, 0, 1, 0, 7}, logits);
  EXPECT_NEAR(counts[0] / 20000.0, 0.3, 0.015);
  EXPECT_NEAR(counts[1] / 20000.0, 0.6, 0.015);
  EXPECT_NEAR(counts[2] / 20000.0, 0.1, 0.015);
  // At temperature 2: square roots.
  double norm = std::sqrt(0.3) + std::sqrt(0.6) + std::sqrt(0.1);
  counts = histogram({2, 0, 1, 0, 7}, logits);
  EXPECT_NEAR(counts[2] / 20000.0, std::sqrt(0.1) / norm, 0.015);
}

TEST(Sampler, LimitsWhatItDrawsFrom) {
  std::vector<double> logits = {std::log(0.3), std::log(0.5), std::log(0.1), std::log(0.1)};
  auto counts = histogram({1, 2, 1, 0, 1}, logits);
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_NEAR(counts[0] / 20000.0, 0.375, 0.015);
  EXPECT_EQ(histogram({1, 1, 1, 0, 1}, logits).size(), 1u);
  EXPECT_EQ(histogram({1, 0, 0.79, 0, 1}, logits).size(), 2u);
  EXPECT_EQ(histogram({1, 0, 0.81, 0, 1}, logits).size(), 3u);
  EXPECT_EQ(histogram({1, 0, 0, 0, 1}, logits).size(), 1u); // at least one
  EXPECT_EQ(histogram({1, 0, 1, 0.5, 1}, logits).size(), 2u);
  EXPECT_EQ(histogram({1, 0, 1, 1, 1}, logits).size(), 1u);
}

TEST(Sampler, SameSeedSameTokens) {
  std::vector<double> logits(100, 0.0);
  Sampler a({1, 0, 1, 0, 42}), b({1, 0, 1, 0, 42}), c({1, 0, 1, 0, 43});
  int differ = 0;
  for (int i = 0; i < 100; ++i) {
    int32_t token = a.sample(logits);
    EXPECT_EQ(token, b.sample(logits));
    differ += token != c.sample(logits);
  }
  EXPECT_GT(differ, 80);
  // The draws themselves are part of what a seed promises.
  Sampler fixed({1, 0, 1, 0, 0});
  std::vector<int32_t> first;
  for (int i = 0; i < 4; ++i)
    first.push_back(fixed.sample(logits));
  EXPECT_EQ(first, (std::vector<int32_t>{88, 43, 2, 97}));
}

TEST(Sampler, SurvivesAnyLogits) {
  for (const std::vector<double> &logits :
       {std::vector<double>{nan, nan}, {-inf, -inf}, {inf, 0}, {nan, 1, -inf}, {1e308, -1e308}})
    for (SamplingOptions options : {SamplingOptions{1, 1, 0.5, 0.5, 1},
                                    {1e-300, 0, 1, 0, 1},
                                    {1e300, 0, 1, 0, 1},
                                    {1, 0, 0.9, 0.1, 1}}) {
      int32_t token = Sampler(options).sample(logits);
      EXPECT_GE(token, 0);
      EXPECT_LT(size_t(token), logits.size());
      EXPECT_FALSE(std::isnan(logits[size_t(token)]) && !std::isnan(logits[1]));
    }
}

// The largest logits, in the order of programs, are as good as all.
TEST(Sampler, DrawsTheSameFromTheLargestAlone) {
  std::vector<double> logits;
  for (int i = 0; i < 200; ++i)
    logits.push_back(i % 17 == 3 ? nan : i % 13 == 5 ? -inf : std::sin(i * i) * 4);
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    double x = logits[size_t(a)], y = logits[size_t(b)];
    if (std::isnan(x) != std::isnan(y))
      return std::isnan(y);
    return std::isnan(x) || x == y ? a < b : x > y;
  });
  ids.resize(40);
  std::vector<double> largest;
  for (int32_t id : ids)
    largest.push_back(logits[size_t(id)]);
  for (SamplingOptions options : {SamplingOptions{}, {0.8, 40, 1, 0, 5}, {1.3, 8, 0.7, 0.05, 6}}) {
    Sampler all(options), few(options);
    ASSERT_TRUE(few.enough(40));
    for (int draw = 0; draw < 200; ++draw)
      ASSERT_EQ(few.sample(largest, ids), all.sample(logits)) << draw;
  }
  EXPECT_FALSE(Sampler({1, 0, 1, 0, 0}).enough(40));
  EXPECT_FALSE(Sampler({1, 41, 1, 0, 0}).enough(40));
  EXPECT_TRUE(Sampler({1, 40, 1, 0, 0}).enough(40));
  EXPECT_TRUE(Sampler({}).enough(1));
  EXPECT_FALSE(Sampler({}).enough(0));
  // Infinity and no number at all.
  EXPECT_EQ(Sampler({1, 2, 1, 0, 3}).sample(std::vector{inf, 1.0}, std::vector{7, 9}), 7);
  EXPECT_EQ(Sampler({1, 2, 1, 0, 3}).sample(std::vector{nan, nan}, std::vector{0, 1}), 0);
}

} // namespace
