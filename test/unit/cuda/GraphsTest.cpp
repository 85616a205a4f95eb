// Steps that come again are graphs.
#include "CudaModel.h"

namespace gemma::test {
namespace {

// Steps that come again are graphs: nothing is launched one by one, and no number changes.
TEST_F(CudaModelTest, StepsBecomeGraphs) {
  FakeCuda fake;
  ::setenv("GEMMA_CUDA_GRAPHS", "0", 1);
  auto expected = generate("cuda:0", 6);
  ::unsetenv("GEMMA_CUDA_GRAPHS");
  ASSERT_TRUE(expected) << expected.error().message;
  EXPECT_EQ(fake.calls("cuGraphLaunch"), 0u);
  {
    auto loaded = load("cuda:0");
    ASSERT_TRUE(loaded) << loaded.error().message;
    auto sequence = loaded->context->newSequence();
    auto got = generate(*loaded->context, **sequence, 6);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_TRUE(*got == *expected);
    EXPECT_GE(fake.calls("cuGraphLaunch"), 3u);
    // Another sequence's tokens, other places in the caches: the same graph.
    auto other = loaded->context->newSequence();
    fake.configure("");
    auto again = generate(*loaded->context, **other, 6);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_TRUE(*again == *expected);
    EXPECT_GE(fake.calls("cuGraphLaunch"), 5u);
    EXPECT_EQ(fake.calls("cuStreamBeginCapture"), fake.calls("cuGraphInstantiateWithFlags"));
  }
  EXPECT_EQ(fake.live(), 0u);
}

// All batches of a decode variant are the same launches: blocks beyond what a step has do nothing.
TEST_F(CudaModelTest, BatchesOfAVariantShareAGraph) {
  FakeCuda fake;
  using Tops = std::vector<std::pair<int32_t, double>>;
  unsigned launched = 0, made = 0;
  auto decode = [&](const char *device) -> Expected<Tops> {
    auto loaded = load(device);
    if (!loaded)
      return loaded.status();
    Context &context = *loaded->context;
    std::vector<std::unique_ptr<Sequence>> sequences;
    for (size_t i = 0; i < 6; ++i) {
      auto sequence = context.newSequence();
      if (!sequence)
        return sequence.status();
      sequences.push_back(std::move(*sequence));
      if (Status status = context.extend(*sequences[i], std::span(prompt).first(4 + i),
                                         LogitsWanted::None, ChunkResult());
          !status)
        return status;
    }
    unsigned launchedBefore = fake.calls("cuGraphLaunch");
    unsigned madeBefore = fake.calls("cuGraphInstantiateWithFlags");
    Tops tops;
    for (size_t count : {4, 6, 5}) {
      std::vector<StepRow> rows;
      for (size_t i = 0; i < count; ++i)
        rows.push_back({sequences[i].get(), std::span(prompt).subspan(i, 1), LogitsWanted::Last});
      Expected<StepResult> result = context.step(rows, OutputsWanted::Top);
      if (!result)
        return result.status();
      auto ids = context.output("top_ids"), values = context.output("top_values");
      EXPECT_EQ(ids->rows, int64_t(count));
      for (size_t i = 0; i < count; ++i) {
        tops.emplace_back();
        ids->copyRow(int64_t(i), std::span(&tops.back().first, 1));
        values->copyRow(int64_t(i), std::span(&tops.back().second, 1));
      }
    }
    launched = fake.calls("cuGraphLaunch") - launchedBefore;
    made = fake.calls("cuGraphInstantiateWithFlags") - madeBefore;
    return tops;
  };
  auto expected = decode("emu");
  ASSERT_TRUE(expected) << expected.error().message;
  auto got = decode("cuda:0");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(made, 1u);
  EXPECT_EQ(launched, 2u);
  EXPECT_TRUE(*got == *expected);
  EXPECT_EQ(fake.live(), 0u);
}

// Graphs take memory that is not planned: where there is none, steps go on without.
TEST_F(CudaModelTest, NoMemoryForGraphs) {
  FakeCuda fake;
  auto expected = generate("cuda:0", 6);
  ASSERT_TRUE(expected) << expected.error().message;
  for (const char *entry : {"cuGraphInstantiateWithFlags", "cuGraphLaunch"}) {
    fake.configure("fail=" + std::string(entry) + ":1:2");
    auto got = generate("cuda:0", 6);
    ASSERT_TRUE(got) << entry << ": " << got.error().message;
    EXPECT_TRUE(*got == *expected) << entry;
    EXPECT_LE(fake.calls("cuGraphLaunch"), 1u) << entry;
    EXPECT_EQ(fake.live(), 0u) << entry;
  }
}

} // namespace
} // namespace gemma::test
