// What goes to the device and comes back in a step, and how often is waited.
#include "CudaModel.h"

#include <array>

namespace gemma::test {
namespace {

TEST_F(CudaModelTest, OneCopyInOneWaitAStep) {
  FakeCuda fake;
  auto loaded = load("cuda:0");
  ASSERT_TRUE(loaded) << loaded.error().message;
  auto sequence = loaded->context->newSequence();
  auto count = [&](const Ids &tokens, LogitsWanted wanted) {
    fake.configure("");
    StepRow row{sequence->get(), tokens, wanted};
    auto result = loaded->context->step({&row, 1});
    EXPECT_TRUE(result) << result.error().message;
    return std::array{fake.calls("cuMemcpyHtoDAsync"), fake.calls("cuMemcpyDtoHAsync"),
                      fake.calls("cuStreamSynchronize")};
  };
  using Counts = std::array<unsigned, 3>;
  EXPECT_EQ(count({2, 3, 4}, LogitsWanted::None), (Counts{1, 0, 1}));
  EXPECT_EQ(count({5}, LogitsWanted::Last), (Counts{1, 1, 1}));
  EXPECT_EQ(count({6, 7}, LogitsWanted::All), (Counts{1, 1, 1}));
}

// Greedy decoding reads back the token: no logits, nothing else to wait for.
TEST_F(CudaModelTest, GreedyDecodingReadsTokens) {
  FakeCuda fake;
  auto expected = generate("emu", 8);
  ASSERT_TRUE(expected) << expected.error().message;
  auto loaded = load("cuda:0");
  ASSERT_TRUE(loaded) << loaded.error().message;
  Context &context = *loaded->context;
  auto sequence = context.newSequence();
  GenerationOptions options;
  options.maxTokens = 8;
  options.ignoreEos = true;
  GenerationEvents events;
  std::vector<std::array<uint64_t, 5>> counts; // a token each
  events.onToken = [&](int32_t, std::span<const double> logits) {
    EXPECT_TRUE(logits.empty());
    EXPECT_FALSE(context.output("logits"));
    EXPECT_TRUE(context.output(topIdsName));
    counts.push_back({fake.calls("cuMemcpyHtoDAsync"), fake.calls("cuMemcpyDtoHAsync"),
                      fake.calls("cuGraphLaunch"), fake.calls("cuStreamSynchronize"),
                      fake.bytesToHost()});
    fake.configure("");
    return Status();
  };
  auto result = gemma::generate(context, **sequence, prompt, options, events, nullptr);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->tokens, expected->tokens);
  ASSERT_EQ(counts.size(), 8u);
  // Values and ids of up to 16 rows lie beside each other: one copy of the first row of both.
  const uint64_t bytes = 64 + 4;
  for (size_t i = 1; i < counts.size(); ++i) {
    auto [toDevice, toHost, graphs, waits, copied] = counts[i];
    EXPECT_EQ(waits, 1u) << i;
    EXPECT_EQ(copied, bytes) << i;
    // A graph has its copies inside; one is made at the second step with its number of splits.
    EXPECT_LE(toDevice, 1u) << i;
    EXPECT_LE(toHost, 1u) << i;
    EXPECT_TRUE(graphs == 1 || (toDevice == 1 && toHost == 1)) << i;
  }
  // With logits: all of them, and only then.
  fake.configure("");
  const Ids next = {7};
  StepRow row{sequence->get(), next, LogitsWanted::Last};
  ASSERT_TRUE(context.step({&row, 1}));
  EXPECT_EQ(fake.bytesToHost(), 4096u * 4);
  EXPECT_TRUE(context.output("logits"));
  EXPECT_FALSE(context.output(topIdsName));
  fake.configure("");
  ASSERT_TRUE(context.step({&row, 1}, OutputsWanted::All));
  EXPECT_GE(fake.bytesToHost(), 4096u * 4 + 8);
  EXPECT_TRUE(context.output("logits") && context.output(topValuesName));
}

// Of the page table, the rows that a step has are copied.
TEST_F(CudaModelTest, RowsOfThePageTable) {
  FakeCuda fake;
  auto loaded = load("cuda:0");
  ASSERT_TRUE(loaded) << loaded.error().message;
  Context &context = *loaded->context;
  auto first = context.newSequence(), second = context.newSequence();
  const Ids token = {5};
  std::vector<StepRow> rows = {{first->get(), token, LogitsWanted::Last},
                               {second->get(), token, LogitsWanted::Last}};
  auto bytes = [&](size_t count) {
    fake.configure("");
    auto result = context.step(std::span(rows).first(count));
    EXPECT_TRUE(result) << result.error().message;
    return fake.bytesToDevice();
  };
  uint64_t one = bytes(1), two = bytes(2);
  EXPECT_EQ(two - one, uint64_t(context.model().program().pagesPerSequence()) * 4);
}

} // namespace
} // namespace gemma::test
