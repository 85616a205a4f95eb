// The record of code paths that tests execute on the emulated device, which --report names, against
// the models and steps of these tests.
#include "test/unit/EmulatedCases.h"
#include "test/unit/gpu/SweptModels.h"

#include "tools/compiler/ExecutedKernels.h"
#include "tools/compiler/KernelCost.h"

#include <cstdlib>
#include <fstream>

namespace gemma::test {
namespace {

using Record = std::map<std::string, std::string>; ///< signature -> suite

/// Adds the kernels of the variant of each step; those that a step does not launch are not
/// executed.
void add(Record &record, const std::string &suite, const SweptModel &swept) {
  LoweredModel model(swept.config, swept.limits, swept.sharedKeys);
  for (const SweptStep &step : swept.steps) {
    GemmaSizes sizes = sizesOf(step.runs);
    program::VariantOp variant = model.variantFor(sizes);
    ASSERT_TRUE(variant);
    compiler::StepSizes counts{sizes.tokens, sizes.sequences, sizes.longestRun, sizes.longestSeq,
                               sizes.logitRows};
    for (program::LaunchOp launch : variant.getBody().front().getOps<program::LaunchOp>()) {
      kernel::FuncOp kernel = model.kernel(launch.getKernel());
      if (compiler::gridBlocks(kernel, counts) > 0)
        record.try_emplace(compiler::signatureOf(kernel), suite);
    }
  }
}

SweptModel sweptOf(const EmulatedCase &emulated) {
  SweptModel swept{emulated.config,
                   {.context = emulated.context, .batch = 1, .chunk = emulated.chunk},
                   true,
                   false,
                   {}};
  swept.steps.push_back({{{emulated.prompt, emulated.prompt}}, 0});
  swept.steps.push_back({{{1, emulated.prompt + 1}}, 0});
  return swept;
}

Record executed() {
  Record record;
  for (const auto &models :
       {everySize(), madeKeys(), trueHeads(), largeTiles(), deepRows(), wideProjections()})
    for (const SweptModel &model : models)
      add(record, "everyday", model);
  add(record, "everyday", sweptOf(trueHeadsCase()));
  add(record, "long", sweptOf(trueWidthCase()));
  for (const LongSweep &part : longSweeps())
    for (const SweptModel &model : modelsOf(part))
      add(record, "long", model);
  return record;
}

TEST(ExecutedKernels, RecordIsCurrent) {
  Record expected = executed();
  EXPECT_GE(expected.size(), 20u);
  if (const char *path = std::getenv("GEMMA_WRITE_EXECUTED")) {
    std::ofstream file(path);
    file << "# Code paths that tests execute on the emulated device, and in which suite. Written "
            "by\n"
            "# GEMMA_WRITE_EXECUTED=FILE GpuKernelTest --gtest_filter=ExecutedKernels.*\n";
    for (const auto &[signature, suite] : expected)
      file << suite << ": " << signature << "\n";
    GTEST_SKIP() << "written: " << path;
  }
  Record recorded;
  for (const compiler::ExecutedKernel &kernel : compiler::executedKernels())
    recorded.emplace(kernel.signature, kernel.suite);
  EXPECT_EQ(recorded, expected) << "GEMMA_WRITE_EXECUTED=tools/compiler/ExecutedKernels.txt "
                                   "writes the record anew";
}

TEST(ExecutedKernels, UnknownOnesAreAssembledAlone) {
  EXPECT_FALSE(compiler::suiteThatExecutes("mma 1x2x3, 4 stages"));
}

} // namespace
} // namespace gemma::test
