// The comparisons of gemma-verify: right programs pass, wrong ones fail where they are wrong.
#include "tools/verify/Verification.h"

#include "tools/compiler/Compiler.h"
#include "tools/verify/Bounds.h"

#include "gtest/gtest.h"

#include <nlohmann/json.hpp>

using namespace gemma;
using namespace gemma::verify;
using reference::Tensor;

namespace {

TEST(DistanceTest, PiecesTogether) {
  Distance distance;
  EXPECT_EQ(distance.value(), 0);
  distance.add(Tensor({2}, {1, 2}), Tensor({2}, {1, 2}));
  distance.add(Tensor({1}, {4.5}), Tensor({1}, {4}));
  EXPECT_EQ(distance.value(), 0.125);
  distance.add(Tensor({1}, {-0.5}), Tensor({1}, {-8}));
  EXPECT_EQ(distance.value(), 7.5 / 8);
}

TEST(DistanceTest, NanAndShapesAreInfinitelyFar) {
  Distance nan;
  nan.add(Tensor({1}, {NAN}), Tensor({1}, {1}));
  EXPECT_EQ(nan.value(), INFINITY);
  Distance shape;
  shape.add(Tensor({1, 2}), Tensor({2, 1}));
  EXPECT_EQ(shape.value(), INFINITY);
}

TEST(PromptPlanTest, StepsAndLogitRows) {
  PromptPlan prompt = makePrompt(1, 13, 100, 4, true);
  EXPECT_EQ(prompt.tokens.size(), 13u);
  EXPECT_EQ(prompt.steps, (std::vector<int64_t>{4, 4, 2, 1, 1, 1}));
  EXPECT_EQ(prompt.logitRows().size(), 13u);
  prompt.allLogits = false;
  EXPECT_EQ(prompt.logitRows(), (reference::Ids{3, 7, 9, 10, 11, 12}));
}

TEST(BoundsTest, PublishedOnesInF64) {
  EXPECT_EQ(nodeBound(ScalarType::F64, 384), 3e-15);
  EXPECT_EQ(wholeBound(ScalarType::F64, 12, 512), 5e-14);
  EXPECT_GT(nodeBound(ScalarType::F32, 2048), 1.9 * nodeBound(ScalarType::F32, 512));
}

TEST(VerifyReportTest, WhatWasNotRunDoesNotHold) {
  VerifyReport report;
  EXPECT_FALSE(report.holds());
  report.rows.push_back({.key = "embed", .what = "embed", .worst = 0, .where = "", .bound = 1});
  EXPECT_FALSE(report.holds());
  EXPECT_NE(printReport(report).find("NOT RUN"), std::string::npos);
  report.rows[0].tensors = 1;
  EXPECT_TRUE(report.holds());
  report.rows[0].worst = INFINITY;
  EXPECT_FALSE(report.holds());
  EXPECT_NE(printReport(report).find("FAILS"), std::string::npos);
  EXPECT_TRUE(reportToJson(report)["rows"][0]["error"].is_null());
}

/// A model of two layers, one of each kind.
struct VerificationTest : testing::Test {
  ModelConfig config;
  VerifyOptions options;
  std::unique_ptr<Verification> verification;
  Artifact artifact;

  void start(bool fusion) {
    Expected<ModelSource> source = findModel("google/gemma-4-12B");
    ASSERT_TRUE(source) << source.error().message;
    Expected<ModelConfig> reduced = reducedConfig(source->config);
    ASSERT_TRUE(reduced) << reduced.error().message;
    config = *reduced;
    config.layerKinds = {LayerKind::Sliding, LayerKind::Global};
    auto made = Verification::make(config, options);
    ASSERT_TRUE(made) << made.error().message;
    verification = *std::move(made);
    // Compiled once for all tests.
    static std::optional<Artifact> compiled[2];
    if (!compiled[fusion]) {
      compiler::CompileOptions compileOptions;
      compileOptions.dtype = ScalarType::F64;
      compileOptions.maxContext = 64;
      compileOptions.maxChunk = 23;
      compileOptions.fusion = fusion;
      compileOptions.isas = {"baseline"};
      auto result = compiler::compileModel(config, compileOptions);
      ASSERT_TRUE(result) << result.error().message;
      compiled[fusion] = *std::move(result);
    }
    artifact = *compiled[fusion];
  }

  void run() {
    Status drawn = verification->draw(3);
    ASSERT_TRUE(drawn) << drawn.error().message;
    Status ran = verification->run(artifact, makePrompt(3, 40, config.vocab, 23, true));
    ASSERT_TRUE(ran) << ran.error().message;
  }

  /// Keys of the rows that do not hold, each once.
  std::vector<std::string> failing() const {
    std::vector<std::string> keys;
    for (const VerifyRow &row : verification->rows())
      if (!row.holds() && !std::ranges::count(keys, row.key))
        keys.push_back(row.key);
    return keys;
  }
};

TEST_F(VerificationTest, UnfusedProgramHolds) {
  start(false);
  run();
  EXPECT_EQ(failing(), std::vector<std::string>());
  // Every row of the node table, logits and caches.
  EXPECT_EQ(verification->rows().size(), 24u + 2u);
}

TEST_F(VerificationTest, FusedProgramHoldsAsAWhole) {
  start(true);
  run();
  EXPECT_EQ(failing(), std::vector<std::string>());
  EXPECT_EQ(verification->rows().size(), 2u);
}

TEST_F(VerificationTest, AWrongThetaFailsRopeAndTheWhole) {
  start(false);
  for (TablePlan &table : artifact.program.tables)
    table.theta *= 1 + 1e-9;
  run();
  EXPECT_EQ(failing(), (std::vector<std::string>{"layers[*].attn.rope", "whole model"}));
}

TEST_F(VerificationTest, GateAndUpExchangedFailTheProjection) {
  start(false);
  for (WeightRecipe &recipe : artifact.program.weights)
    if (recipe.name == "l1.gate_up")
      std::swap(recipe.sources[0], recipe.sources[1]);
  run();
  EXPECT_EQ(failing(), (std::vector<std::string>{"layers[*].mlp.gate_up", "whole model"}));
}

TEST_F(VerificationTest, ANodeWithoutALaunchFails) {
  start(false);
  for (Launch &launch : artifact.program.variants[0].launches)
    if (launch.nodes == std::vector<std::string>{"layers[0].mlp.act"})
      launch.nodes = {"layers[0].mlp.other"};
  run();
  EXPECT_EQ(failing(), (std::vector<std::string>{"layers[*].mlp.act"}));
}

TEST_F(VerificationTest, UnknownNodesNameNearOnes) {
  options.nodes = "layers[*].mlp.dwn";
  Expected<ModelSource> source = findModel("google/gemma-4-31B");
  ASSERT_TRUE(source) << source.error().message;
  auto made = Verification::make(source->config, options);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("near ones are layers[*].mlp.down"), std::string::npos)
      << made.error().message;
}

} // namespace
