// The costs that gemma-bench derives from a program, against those of the published pages.
#include "tools/measure/LaunchCost.h"

#include "import/Import.h"
#include "runtime/abi/Variants.h"
#include "tools/compiler/Compiler.h"
#include "tools/verify/ModelSource.h"
#include "tools/verify/SpecSheet.h"

#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace gemma;
using namespace gemma::measure;

namespace {

ModelConfig configOf(const std::string &model) {
  Expected<verify::ModelSource> source = verify::findModel(model);
  EXPECT_TRUE(source) << source.error().message;
  return source ? source->config : ModelConfig();
}

Program programOf(const ModelConfig &config, const compiler::CompileOptions &options) {
  Expected<Program> program = compiler::planModel(config, options);
  EXPECT_TRUE(program) << program.error().message;
  return program ? *program : Program();
}

class LaunchCosts : public testing::TestWithParam<bool> {};

} // namespace

// The operations are those of the model's spec sheet, which SpecSheetTest holds against the pages,
// fused and unfused: nothing is forgotten, nothing counted twice.
TEST_P(LaunchCosts, OperationsAreThoseOfTheSpec) {
  ModelConfig config = configOf("google/gemma-4-12B");
  mlir::MLIRContext context;
  auto module = importModel(context, config, {ScalarType::BF16});
  ASSERT_TRUE(module);
  verify::CostModel expected = verify::deriveSpec(*module, "12B", config.maxPositions).costs;
  compiler::CompileOptions options;
  options.fusion = GetParam();
  Program program = programOf(config, options);
  ASSERT_FALSE(program.variants.empty());

  std::optional<Cost> prefill =
      appendCost(program, 0, verify::CostModel::prompt, program.limits.maxChunk, false);
  ASSERT_TRUE(prefill);
  EXPECT_EQ(int64_t(prefill->flops), expected.prefillFlops);
  std::optional<Cost> decode = appendCost(program, verify::CostModel::cached, 1, 1, true);
  ASSERT_TRUE(decode);
  EXPECT_EQ(int64_t(decode->flops), expected.decodeFlops);
}

// A decoded token reads every weight once (the embedding as head; a tied one once more for its
// row) and the visible keys and values of every layer; activations are small beside that.
TEST_P(LaunchCosts, DecodeReadsWeightsAndVisibleCache) {
  ModelConfig config = configOf("google/gemma-4-12B");
  compiler::CompileOptions options;
  options.fusion = GetParam();
  Program program = programOf(config, options);
  double least = 0;
  for (const WeightRecipe &weight : program.weights)
    least += double(weight.bytes);
  int64_t cached = 2000;
  for (const CachePlan &cache : program.caches) {
    int64_t visible = cache.window ? std::min(cached + 1, cache.window) : cached + 1;
    least += double(cache.keys ? 2 : 1) * double(cache.heads * cache.dim * visible) *
             double(byteWidth(cache.elem));
  }
  std::optional<Cost> decode = appendCost(program, cached, 1, 1, true);
  ASSERT_TRUE(decode);
  EXPECT_GT(decode->bytes, least);
  EXPECT_LT(decode->bytes, least * 1.01);
}

INSTANTIATE_TEST_SUITE_P(Fusion, LaunchCosts, testing::Bool(),
                         [](const auto &info) { return info.param ? "on" : "off"; });

// A launch that computes no node whole is told by its kernel.
TEST(LaunchNames, NoLaunchIsNameless) {
  compiler::CompileOptions options;
  options.weightType = ScalarType::I4;
  Program program = programOf(configOf("google/gemma-4-12B"), options);
  std::map<std::string, int> names;
  for (const Variant &variant : program.variants)
    for (const Launch &launch : variant.launches)
      ++names[nodesOf(program, launch)];
  EXPECT_EQ(names.count(""), 0u);
  EXPECT_GT(names["(quantize)"], 0);
  EXPECT_GT(names["attn.o_proj"], 0);
}

TEST(LaunchCount, FusedDecodeHasFiveLaunchesALayer) {
  // In a global layer of the 12B too, whose only KV head is two blocks' work.
  for (const char *name : {"google/gemma-4-12B", "google/gemma-4-31B"}) {
    Program program = programOf(configOf(name), {});
    size_t decode = variantFor(program, StepShape{{{0, 1}}, 1}.sizes());
    ASSERT_LT(decode, program.variants.size());
    EXPECT_EQ(launchesPerLayer(program.variants[decode]), 5) << name;
  }
}

// No step without a variant: sizes that no condition admits are told apart.
TEST(LaunchCount, NoVariantIsSaid) {
  Program program;
  EXPECT_EQ(variantFor(program, StepShape{{{0, 1}}, 1}.sizes()), 0u);
  EXPECT_FALSE(appendCost(program, 0, 3, 1, true));
}
