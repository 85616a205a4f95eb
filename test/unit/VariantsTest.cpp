#include "runtime/abi/Variants.h"

#include <gtest/gtest.h>

namespace gemma {
namespace {

using Op = SizeExpr::Op;

/// sizes[which] <= most
SizeCondition atMost(int64_t which, int64_t most) {
  return {{{{Op::Constant, most}, {Op::Size, which}, {Op::Constant, -1}, {Op::Mul}, {Op::Add}}}};
}

Program programOf(std::vector<std::vector<SizeCondition>> conditions) {
  Program program;
  for (std::vector<SizeCondition> &of : conditions)
    program.variants.push_back({"", std::move(of), {}, 0});
  program.limits.maxContext = 128;
  program.limits.maxBatch = 20;
  program.limits.maxChunk = 64;
  program.limits.maxLogitRows = 16;
  return program;
}

TEST(Variants, TheFirstWhoseConditionsHold) {
  Program program = programOf({{atMost(0, 8), atMost(2, 1)}, {atMost(2, 1)}});
  EXPECT_EQ(variantFor(program, {8, 8, 1, 9, 8}), 0u);
  EXPECT_EQ(variantFor(program, {9, 9, 1, 9, 9}), 1u);
  EXPECT_EQ(variantFor(program, {4, 2, 2, 9, 2}), 2u); // none
}

TEST(Variants, LargestDecodeStep) {
  Program program = programOf({{atMost(0, 8), atMost(2, 1)}, {atMost(2, 1)}, {atMost(0, 64)}, {}});
  auto largest = [&](size_t variant, int64_t batch) {
    return largestDecodeStep(program.variants[variant], program.limits, batch);
  };
  EXPECT_EQ(largest(0, 20), (StepSizes{8, 8, 1, 128, 8}));
  EXPECT_EQ(largest(0, 3), (StepSizes{3, 3, 1, 128, 3}));     // what the context allows
  EXPECT_EQ(largest(1, 20), (StepSizes{20, 20, 1, 128, 16})); // at most 16 logit rows
  // Rows of any length run these too.
  EXPECT_EQ(largest(2, 20), std::nullopt);
  EXPECT_EQ(largest(3, 20), std::nullopt);
}

} // namespace
} // namespace gemma
