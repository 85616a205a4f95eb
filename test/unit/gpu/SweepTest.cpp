// Every kernel that the compiler makes for CUDA devices, at token counts and batches on both sides
// of every switch, with lengths on both sides of every border, against double; and what lies around
// what they may read changes no bit.
#include "test/unit/LongTests.h"
#include "test/unit/gpu/SweptModels.h"

#include <set>

namespace gemma::test {
namespace {

/// Runs a step with NaN wherever nothing may be read, compares each kernel with its reference, then
/// runs it again with numbers there, in another order, with copies that land at other times: not a
/// bit may change. `all`: in every order and mode.
void check(LoweredModel &model, const Runs &runs, uint32_t seed, bool all) {
  LoweredStep step(model, runs, seed);
  SCOPED_TRACE(testing::Message() << step.sizes.tokens << " tokens of " << step.sizes.sequences
                                  << " sequences, " << step.variant);
  step.run(optionsOf(modes(false)[0]), /*check=*/true);
  if (testing::Test::HasFailure())
    return;
  std::vector<std::byte> expected = step.results(step.places());
  std::vector<Mode> others = modes(all);
  if (!all)
    others = {others[1 + seed % 2]};
  for (Mode mode : others) {
    LoweredStep again(model, runs, seed, /*poison=*/0x4a);
    emu::LaunchOptions options = optionsOf(mode, seed);
    options.checkBounds = options.checkRaces = all;
    again.run(options, /*check=*/false);
    if (testing::Test::HasFailure())
      return;
    ASSERT_EQ(again.results(step.places()), expected) << "order " << int(mode.order);
  }
}

void sweep(const std::vector<SweptModel> &models) {
  for (const SweptModel &swept : models) {
    LoweredModel model(swept.config, swept.limits, swept.sharedKeys);
    for (const SweptStep &step : swept.steps) {
      check(model, step.runs, step.seed, swept.every);
      if (testing::Test::HasFailure())
        return;
    }
  }
}

TEST(GpuSweep, KernelsAreRightAtEverySize) { sweep(everySize()); }

TEST(GpuSweep, KernelsMakeKeysOfValues) { sweep(madeKeys()); }

TEST(GpuSweep, KernelsAreRightWithTheRoundingOfDevices) {
  LoweredModel model(smallModel(), {.context = 1024, .batch = 33, .chunk = 257}, false);
  emu::LaunchOptions options;
  options.mmaRounding = emu::MmaRounding::Truncated;
  for (const Runs &runs : {raggedRuns(36, 3, 1), raggedRuns(8, 8, 2), raggedRuns(33, 33, 3)}) {
    LoweredStep step(model, runs, 5);
    step.run(options, /*check=*/true);
  }
}

TEST(GpuSweep, TrueHeadsAreRight) { sweep(trueHeads()); }

TEST(GpuSweep, LargeTilesAreRight) { sweep(largeTiles()); }

TEST(GpuSweep, DeepRowsAreRight) { sweep(deepRows()); }

TEST(GpuSweep, WideProjectionsAreRight) { sweep(wideProjections()); }

class GpuLongSweep : public testing::TestWithParam<LongSweep> {};

TEST_P(GpuLongSweep, KernelsAreRight) {
  if (!wantsLongTests())
    GTEST_SKIP() << "takes many minutes: GEMMA_LONG_TESTS=1";
  sweep(modelsOf(GetParam()));
}

std::string nameOf(const testing::TestParamInfo<LongSweep> &info) {
  const char *heads[] = {"SmallHeads", "HeadsOf12B", "HeadsOf31B"};
  return std::string(heads[size_t(info.param.heads)]) +
         (info.param.sharedKeys ? "SharedKeys" : "StoredKeys") + "From" +
         std::to_string(info.param.tokens.front());
}

INSTANTIATE_TEST_SUITE_P(All, GpuLongSweep, testing::ValuesIn(longSweeps()), nameOf);

/// The logits of the first sequence.
std::vector<std::byte> firstLogits(LoweredModel &model, const Runs &runs, std::string &variant) {
  LoweredStep step(model, runs, 9);
  emu::LaunchOptions options;
  options.checkRaces = false;
  step.run(options, /*check=*/false);
  variant = step.variant;
  // Before the last launch, which finds the largest: the logits' is their third argument.
  const std::vector<std::byte> &all = step.launches[step.launches.size() - 2].after[2];
  EXPECT_EQ(all.size() % runs.size(), 0u);
  return {all.begin(), all.begin() + ptrdiff_t(all.size() / runs.size())};
}

// What --deterministic promises: alone, in a batch of 8, of 20 and of 64, and beside a prompt a row
// gives the same bits, though the variants have other tiles.
TEST(GpuSweep, RowsDoNotDependOnTheBatch) {
  LoweredModel model(smallModel(), {.context = 512, .batch = 64, .chunk = 100}, false,
                     /*deterministic=*/true);
  for (const auto &first : Runs{{1, 100}, {9, 70}}) {
    std::string variant;
    std::vector<std::byte> alone = firstLogits(model, {first}, variant);
    std::set<std::string> variants = {variant};
    for (size_t sequences : {8, 20, 64}) {
      Runs runs(sequences, {1, 3});
      runs[0] = first;
      EXPECT_EQ(firstLogits(model, runs, variant), alone) << sequences << " sequences, " << variant;
      variants.insert(variant);
    }
    EXPECT_GE(variants.size(), 2u);
    EXPECT_EQ(firstLogits(model, {first, {20, 50}}, variant), alone) << "beside a prompt";
  }
}

} // namespace
} // namespace gemma::test
