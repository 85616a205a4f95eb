// Every kernel that the compiler makes for CUDA devices, at token counts and batches on both sides
// of every switch, with lengths on both sides of every border, against double; and what lies around
// what they may read changes no bit.
#include "test/unit/gpu/LoweredModel.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace gemma::test {
namespace {

/// Sizes that no tile divides: 5 blocks of 64 columns, the last one with 8, for a ring of 4; 17
/// groups of rows; a window that ends within a page.
ModelConfig smallModel() {
  ModelConfig config;
  config.vocab = 136;
  config.hidden = 264;
  config.intermediate = 72;
  config.heads = 4;
  config.layerKinds = {LayerKind::Sliding, LayerKind::Global};
  config.sliding = {.kvHeads = 2, .headDim = 32, .window = 40, .rope = {1e4, 32, 32, 16}};
  config.global = {.kvHeads = 1, .headDim = 64, .rope = {1e6, 64, 64, 8}, .valuesAreKeys = true};
  config.rmsEps = 1e-6;
  config.softcap = 30;
  return config;
}

/// The heads of the published models.
ModelConfig trueHeads() {
  ModelConfig config = smallModel();
  config.heads = 16;
  config.sliding = {.kvHeads = 8, .headDim = 256, .window = 72, .rope = {1e4, 256, 256, 128}};
  config.global = {
      .kvHeads = 1, .headDim = 512, .rope = {1e6, 512, 512, 64}, .valuesAreKeys = true};
  return config;
}

/// Earlier tokens of the sequences, in turn: borders of pages, of tiles of keys, of the window, and
/// beyond the end of a ring.
constexpr int64_t earlier[] = {0,  1,  14, 15, 16, 17, 38, 39,  40,  41,  47,  48,
                               62, 63, 64, 65, 79, 80, 81, 127, 128, 129, 303, 400};

/// `tokens` tokens in `sequences` sequences of different sizes.
Runs raggedRuns(int64_t tokens, int64_t sequences, size_t salt) {
  Runs runs;
  for (int64_t b = 0; b < sequences; ++b) {
    // A share of what is left, growing from one sequence to the next; every one has a token.
    int64_t left = sequences - b, fresh = std::max<int64_t>(1, tokens / left - left / 2);
    if (left == 1)
      fresh = tokens;
    tokens -= fresh;
    runs.push_back({fresh, fresh + earlier[(salt + size_t(b)) % std::size(earlier)]});
  }
  return runs;
}

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

/// Token counts of a sweep, and whether it takes its time.
struct Extent {
  std::vector<int64_t> tokens;
  bool every = false; ///< batch at every count, in every order and mode
};

void sweep(const ModelConfig &config, bool sharedKeys, const Extent &extent) {
  auto seed = static_cast<uint32_t>(extent.tokens.front());
  {
    LoweredModel model(config, {.context = 1024, .batch = 16, .chunk = 257}, sharedKeys);
    for (int64_t tokens : extent.tokens)
      for (int64_t sequences : {1, 15, 16}) {
        // Large steps with one of the batches each.
        bool left = tokens > 65 && sequences != std::array<int64_t, 3>{15, 16, 1}[tokens % 3];
        if (sequences > tokens || (left && !extent.every))
          continue;
        check(model, raggedRuns(tokens, sequences, seed * 5), seed, extent.every);
        ++seed;
        if (testing::Test::HasFailure())
          return;
      }
  }
  // A token a sequence: decode's own kernels, for as many sequences as a step can have.
  LoweredModel model(config, {.context = 1024, .batch = 257, .chunk = 257}, sharedKeys);
  for (int64_t tokens : extent.tokens) {
    // Every length in small batches, the shorter ones in large ones.
    size_t lengths = tokens > 65 && !extent.every ? 17 : std::size(earlier);
    Runs runs;
    for (int64_t b = 0; b < tokens; ++b)
      runs.push_back({1, 1 + earlier[(seed * 7 + size_t(b)) % lengths]});
    check(model, runs, seed++, extent.every);
    if (testing::Test::HasFailure())
      return;
  }
}

TEST(GpuSweep, KernelsAreRightAtEverySize) {
  sweep(smallModel(), /*sharedKeys=*/false,
        {{1, 3, 4, 5, 8, 9, 16, 17, 32, 33, 35, 36, 65, 129, 256, 257}});
}

TEST(GpuSweep, KernelsMakeKeysOfValues) {
  LoweredModel model(smallModel(), {.context = 1024, .batch = 16, .chunk = 257}, true);
  uint32_t seed = 100;
  for (auto [tokens, sequences] :
       {std::pair<int64_t, int64_t>{1, 1}, {15, 15}, {9, 1}, {36, 15}, {129, 16}})
    check(model, raggedRuns(tokens, sequences, seed), seed, false), ++seed;
}

TEST(GpuSweep, KernelsAreRightWithTheRoundingOfDevices) {
  LoweredModel model(smallModel(), {.context = 1024, .batch = 33, .chunk = 257}, false);
  emu::LaunchOptions options;
  options.mmaRounding = emu::MmaRounding::Truncated;
  for (Runs runs : {raggedRuns(36, 3, 1), raggedRuns(8, 8, 2), raggedRuns(33, 33, 3)}) {
    LoweredStep step(model, runs, 5);
    step.run(options, /*check=*/true);
  }
}

TEST(GpuSweep, TrueHeadsAreRight) {
  LoweredModel model(trueHeads(), {.context = 1024, .batch = 16, .chunk = 257}, true);
  check(model, {{1, 90}, {1, 17}}, 1, false);
  check(model, {{3, 80}}, 2, false);
}

/// The full product: small and true heads, stored and computed keys, every batch, order and mode.
using Part = std::tuple<bool, bool, std::vector<int64_t>>; ///< true heads, shared keys, tokens
class GpuLongSweep : public testing::TestWithParam<Part> {};

TEST_P(GpuLongSweep, KernelsAreRight) {
  const char *wanted = std::getenv("GEMMA_LONG_TESTS");
  if (!wanted || std::string(wanted) != "1")
    GTEST_SKIP() << "takes many minutes: GEMMA_LONG_TESTS=1";
  auto [isTrue, sharedKeys, tokens] = GetParam();
  sweep(isTrue ? trueHeads() : smallModel(), sharedKeys, {tokens, /*every=*/true});
}

std::string nameOf(const testing::TestParamInfo<Part> &info) {
  auto [isTrue, sharedKeys, tokens] = info.param;
  return std::string(isTrue ? "TrueHeads" : "SmallHeads") +
         (sharedKeys ? "SharedKeys" : "StoredKeys") + "From" + std::to_string(tokens.front());
}

INSTANTIATE_TEST_SUITE_P(
    All, GpuLongSweep,
    testing::Combine(testing::Bool(), testing::Bool(),
                     testing::Values(std::vector<int64_t>{1, 3, 4, 5, 8, 9},
                                     std::vector<int64_t>{16, 17, 32, 33, 35, 36},
                                     std::vector<int64_t>{65, 129}, std::vector<int64_t>{256},
                                     std::vector<int64_t>{257})),
    nameOf);

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
