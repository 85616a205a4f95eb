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
