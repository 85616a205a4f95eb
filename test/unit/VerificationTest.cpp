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
  EXPECT_GT(wholeBound(ScalarType::I8, 12, 512), wholeBound(ScalarType::BF16, 12, 512));
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
    compiler::CompileOptions compileOptions;
    compileOptions.dtype = options.dtype;
    // Compiled once for all tests.
    static std::optional<Artifact> compiled[2];
    startWith(compileOptions, fusion, compiled[fusion]);
  }

  void startWith(compiler::CompileOptions compileOptions, bool fusion,
                 std::optional<Artifact> &compiled) {
    options.dtype = *compileOptions.dtype;
    Expected<ModelSource> source = findModel("google/gemma-4-12B");
    ASSERT_TRUE(source) << source.error().message;
    Expected<ModelConfig> reduced = reducedConfig(source->config);
    ASSERT_TRUE(reduced) << reduced.error().message;
    config = *reduced;
    config.layerKinds = {LayerKind::Sliding, LayerKind::Global};
    auto made = Verification::make(config, options);
    ASSERT_TRUE(made) << made.error().message;
    verification = *std::move(made);
    if (!compiled) {
      compileOptions.maxContext = 64;
      compileOptions.maxChunk = 23;
      compileOptions.fusion = fusion;
      compileOptions.isas = {"baseline"};
      auto result = compiler::compileModel(config, compileOptions);
      ASSERT_TRUE(result) << result.error().message;
      compiled = *std::move(result);
    }
    artifact = *compiled;
  }

  /// One of bf16 that is compiled for this test alone.
  void startOnce(compiler::CompileOptions compileOptions, bool fusion) {
    compileOptions.dtype = ScalarType::BF16;
    std::optional<Artifact> compiled;
    startWith(compileOptions, fusion, compiled);
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

struct QuantisedCase {
  ScalarType weights, table, codes;
};

struct QuantisedVerification : VerificationTest, testing::WithParamInterface<QuantisedCase> {};

/// Every node is as near as one of floats: the embedding's rows and the sums are those of the
/// stored codes, exactly, but for the roundings of f32.
TEST_P(QuantisedVerification, NodesHoldAndSoDoWholeModels) {
  auto [weights, table, codes] = GetParam();
  for (bool fusion : {false, true}) {
    startOnce({.weightType = weights, .embeddingType = table, .codeType = codes}, fusion);
    run();
    EXPECT_EQ(failing(), std::vector<std::string>());
    EXPECT_EQ(verification->rows().size(), fusion ? 2U : 26U);
    for (const VerifyRow &row : verification->rows())
      RecordProperty(row.key + " " + row.what, std::to_string(row.worst));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, QuantisedVerification,
    testing::Values(QuantisedCase{ScalarType::I8, ScalarType::I8, ScalarType::I8},
                    QuantisedCase{ScalarType::I4, ScalarType::I8, ScalarType::I8},
                    QuantisedCase{ScalarType::I4, ScalarType::I4, ScalarType::I16}),
    [](const auto &info) {
      return "Weights" + std::string(name(info.param.weights)) + "Table" +
             std::string(name(info.param.table)) + "By" + std::string(name(info.param.codes));
    });

struct CachesVerification : VerificationTest, testing::WithParamInterface<ScalarType> {};

/// The reference rounds keys and values as the caches do, codes of int8 too: nodes are as near as
/// with any other.
TEST_P(CachesVerification, NodesHoldAndSoDoWholeModels) {
  for (bool fusion : {false, true}) {
    startOnce({.kvType = GetParam()}, fusion);
    Expected<compiler::CompileOptions> types = typeOptions(artifact.program);
    ASSERT_TRUE(types) << types.error().message;
    EXPECT_EQ(types->dtype, ScalarType::BF16);
    EXPECT_EQ(types->kvType, GetParam());
    run();
    EXPECT_EQ(failing(), std::vector<std::string>());
    EXPECT_EQ(verification->rows().size(), fusion ? 2U : 26U);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CachesVerification,
                         testing::Values(ScalarType::F32, ScalarType::I8),
                         [](const auto &info) { return std::string(name(info.param)); });

TEST_F(VerificationTest, CachesOfAnotherTypeFailAttention) {
  startOnce({.kvType = ScalarType::I8}, false);
  artifact.program.cacheType = ScalarType::BF16;
  run();
  EXPECT_EQ(std::ranges::count(failing(), "layers[*].attn.core"), 1);
}

TEST_F(VerificationTest, CodesOfAnotherTypeFailTheProjections) {
  startOnce({.weightType = ScalarType::I8}, false);
  std::string &numerics = artifact.program.numerics;
  size_t at = numerics.find("codes = i8");
  ASSERT_NE(at, std::string::npos) << numerics;
  numerics.replace(at, 10, "codes = i16");
  run();
  std::vector<std::string> wrong = failing();
  for (const char *key : {"layers[*].attn.qkv_proj", "layers[*].mlp.gate_up", "layers[*].mlp.down",
                          "layers[*].attn.o_proj", "lm_head"})
    EXPECT_EQ(std::ranges::count(wrong, key), 1) << key;
  EXPECT_EQ(std::ranges::count(wrong, "embed"), 0);
}

TEST_F(VerificationTest, WeightsOfOtherTensorsAreNotTakenForTheirs) {
  startOnce({.weightType = ScalarType::I4}, true);
  for (WeightRecipe &recipe : artifact.program.weights)
    if (recipe.name == "l1.gate_up")
      std::swap(recipe.sources[0], recipe.sources[1]);
  ASSERT_TRUE(verification->draw(3));
  Status ran = verification->run(artifact, makePrompt(3, 4, config.vocab, 4, true));
  ASSERT_FALSE(ran);
  EXPECT_NE(ran.error().message.find("weight l1.gate_up, row 0"), std::string::npos)
      << ran.error().message;
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
