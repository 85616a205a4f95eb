// What launches of quantised weights and caches of codes move and compute, against numbers by hand.
#include "runtime/abi/ProgramSizes.h"
#include "runtime/abi/Variants.h"
#include "tools/compiler/Compiler.h"
#include "tools/measure/LaunchCost.h"
#include "tools/verify/ModelSource.h"

#include "gtest/gtest.h"

using namespace gemma;
using namespace gemma::measure;

namespace {

// The 12B by hand: 40 sliding layers with 16 heads of 256 and 8 of keys and values, window 1024; 8
// global ones with 16 heads of 512 and one whose keys follow from its values.
constexpr double hidden = 3840, mlp = 3 * 15360 * hidden, table = 262144 * hidden;
constexpr double slidingMatrices = hidden * (16 + 8 + 8) * 256 + hidden * 16 * 256 + mlp;
constexpr double globalMatrices = hidden * (16 + 1) * 512 + hidden * 16 * 512 + mlp;
constexpr double matrices = 40 * slidingMatrices + 8 * globalMatrices;

Program planned(const compiler::CompileOptions &options) {
  Expected<verify::ModelSource> source = verify::findModel("google/gemma-4-12B");
  EXPECT_TRUE(source) << source.error().message;
  if (!source)
    return {};
  Expected<Program> program = compiler::planModel(source->config, options);
  EXPECT_TRUE(program) << program.error().message;
  return program ? *program : Program();
}

/// A decoded token, and a chunk of 37 beside a decoded token.
StepShape decoded() { return {{{4096, 1}}, 1}; }
StepShape ragged() { return {{{1000, 37}, {5000, 1}}, 2}; }

/// Bytes of whole groups of 32 elements: codes, and scales of f16.
double packed(double elements, ScalarType type) {
  return elements / 32 * (type == ScalarType::I8 ? 32 + 2 : 16 + 2);
}

/// What a step's launches cost with the arguments alone that `counts` keeps.
template <typename Counts>
Cost costOfArguments(const Program &program, const StepShape &shape, Counts counts) {
  Cost cost;
  for (Launch launch : program.variants.at(variantFor(program, shape.sizes())).launches) {
    std::erase_if(launch.arguments,
                  [&](const LaunchArgument &argument) { return !counts(argument); });
    cost += launchCost(program, launch, shape);
  }
  return cost;
}

/// Of all weights with two dimensions.
Cost matrixCost(const Program &program, const StepShape &shape) {
  return costOfArguments(program, shape, [&](const LaunchArgument &argument) {
    return argument.kind == LaunchArgument::Kind::Weight &&
           program.weights[size_t(argument.index)].shape.size() == 2;
  });
}

Cost cacheCost(const Program &program, const StepShape &shape) {
  return costOfArguments(program, shape, [](const LaunchArgument &argument) {
    return argument.kind == LaunchArgument::Kind::Cache;
  });
}

Cost wholeCost(const Program &program, const StepShape &shape) {
  return stepCost(program, program.variants.at(variantFor(program, shape.sizes())), shape);
}

struct QuantisedCase {
  const char *name;
  ScalarType weights, embedding;
  bool fusion = true;
};

class QuantisedCosts : public testing::TestWithParam<QuantisedCase> {};

} // namespace

// Codes and scales of every matrix once, rows of the table for the tokens, and as many operations
// as with weights of any type.
TEST_P(QuantisedCosts, MatricesAreCodesAndScales) {
  QuantisedCase types = GetParam();
  Program program = planned({.dtype = ScalarType::BF16,
                             .weightType = types.weights,
                             .embeddingType = types.embedding,
                             .maxBatch = 2,
                             .fusion = types.fusion});
  ASSERT_FALSE(program.variants.empty());
  double codes = packed(matrices, types.weights), head = packed(table, types.embedding),
         row = packed(hidden, types.embedding);

  Cost cost = matrixCost(program, decoded());
  EXPECT_EQ(cost.bytes, codes + head + row);
  EXPECT_EQ(cost.flops, 2 * (matrices + table));
  cost = matrixCost(program, ragged());
  EXPECT_EQ(cost.bytes, codes + head + 38 * row);
  EXPECT_EQ(cost.flops, 2 * (38 * matrices + 2 * table));
  // A chunk whose logits nobody wants reads no head.
  cost = matrixCost(program, {{{0, 512}}, 0});
  EXPECT_EQ(cost.bytes, codes + 512 * row);
  EXPECT_EQ(cost.flops, 2 * 512 * matrices);

  // Activations and norms are small beside that, and no operations are anywhere else.
  Cost whole = wholeCost(program, decoded()), caches = cacheCost(program, decoded());
  cost = matrixCost(program, decoded());
  EXPECT_EQ(whole.flops, cost.flops + caches.flops);
  EXPECT_GT(whole.bytes, cost.bytes + caches.bytes);
  EXPECT_LT(whole.bytes, 1.01 * (cost.bytes + caches.bytes));
}

INSTANTIATE_TEST_SUITE_P(Types, QuantisedCosts,
                         testing::Values(QuantisedCase{"Int8", ScalarType::I8, ScalarType::I8},
                                         QuantisedCase{"Int4", ScalarType::I4, ScalarType::I8},
                                         QuantisedCase{"Int4Table", ScalarType::I4, ScalarType::I4},
                                         QuantisedCase{"Int4Unfused", ScalarType::I4,
                                                       ScalarType::I8, false}),
                         [](const auto &info) { return info.param.name; });

// Visible positions are read and new ones written: codes and an f32 scale a head, of keys and
// values, or of values alone where keys follow from them.
TEST(CacheCosts, FollowTheType) {
  struct Case {
    ScalarType type;
    double slidingRow, globalRow; ///< bytes of a position and head
  };
  for (auto [type, slidingRow, globalRow] : {Case{ScalarType::I8, 256 + 4, 512 + 4},
                                             {ScalarType::BF16, 256 * 2, 512 * 2},
                                             {ScalarType::F32, 256 * 4, 512 * 4}})
    for (bool sharing : {true, false}) {
      SCOPED_TRACE(std::string(name(type)) + (sharing ? " shared" : " stored"));
      Program program =
          planned({.dtype = ScalarType::BF16, .kvType = type, .maxBatch = 2, .kvSharing = sharing});
      ASSERT_FALSE(program.variants.empty());
      double sliding = 40 * 2 * 8 * slidingRow, global = 8 * (sharing ? 1 : 2) * globalRow;

      Cost cost = cacheCost(program, decoded());
      EXPECT_EQ(cost.bytes, sliding * (1024 + 1) + global * (4097 + 1));
      EXPECT_EQ(cost.flops, 4 * 16 * (40 * 256.0 * 1024 + 8 * 512.0 * 4097));

      // Of the chunk's queries 23 see all of 1001 to 1023 positions, 14 the window's.
      cost = cacheCost(program, ragged());
      EXPECT_EQ(cost.bytes, sliding * (1037 + 1024 + 38) + global * (1037 + 5001 + 38));
      double slidingPairs = 23 * 1012 + 14 * 1024 + 1024, globalPairs = 37 * 1019 + 5001;
      EXPECT_EQ(cost.flops, 4 * 16 * (40 * 256 * slidingPairs + 8 * 512 * globalPairs));
    }
}

// Launches of shapes that fill neither panels nor groups.
TEST(QuantisedLaunches, OddShapesByHand) {
  using Kind = LaunchArgument::Kind;
  auto buffer = [](ScalarType type, std::vector<int64_t> shape) {
    LaunchArgument argument{Kind::Buffer};
    argument.type = type;
    argument.shape = std::move(shape);
    argument.extent = 'T';
    return argument;
  };
  auto object = [](Kind kind, int64_t index, const char *lane = "", uint64_t offset = 0) {
    LaunchArgument argument{kind};
    argument.index = index;
    argument.name = lane;
    argument.offset = offset;
    return argument;
  };
  Program program;
  program.config.heads = 6;
  auto weight = [&](ScalarType storage, int64_t rows, int64_t interleave) {
    program.weights.push_back({"w", {}, {rows, 70}, storage, 16, 4, interleave, 0, 32});
    program.weights.back().bytes = packedBytes(program.weights.back()).value_or(0);
    return program.weights.back().bytes;
  };
  // Two halves of 21 rows in two panels each, 70 columns in 3 groups; a table of 3 panels.
  EXPECT_EQ(weight(ScalarType::I8, 42, 2), 4u * 3 * 16 * (32 + 2));
  EXPECT_EQ(weight(ScalarType::I4, 42, 2), 4u * 3 * 16 * (16 + 2));
  EXPECT_EQ(weight(ScalarType::I8, 48, 1), 3u * 3 * 16 * (32 + 2));
  EXPECT_EQ(weight(ScalarType::I4, 48, 1), 3u * 3 * 16 * (16 + 2));
  program.caches = {{"c", true, 3, 20, 8, 16, 2, ScalarType::I8}};
  auto cost = [&](std::vector<LaunchArgument> arguments, std::vector<std::string> nodes) {
    program.kernels.resize(1);
    program.kernels[0].access.assign(arguments.size(), 0);
    // Five tokens: one of a sequence of 31, four of one of 6.
    return launchCost(program, {0, std::move(arguments), std::move(nodes)}, {{{30, 1}, {2, 4}}, 1});
  };
  auto expect = [](Cost got, double bytes, double flops) {
    EXPECT_EQ(got.bytes, bytes);
    EXPECT_EQ(got.flops, flops);
  };

  // Activations as codes, their scales and starts.
  LaunchArgument codes = buffer(ScalarType::I8, {96}), scales = buffer(ScalarType::F32, {3}),
                 starts = buffer(ScalarType::I32, {3});
  constexpr double codedRow = 96 + 3 * 4 + 3 * 4;
  expect(cost({buffer(ScalarType::F32, {70}), codes, scales, starts}, {}), 5 * (70 * 4 + codedRow),
         0);
  // A projection: the scales behind the codes are an argument of their own.
  for (int64_t index : {0, 1}) {
    uint64_t offset = scaleOffset(program.weights[size_t(index)]).value_or(0);
    double bytes = index == 0 ? 4 * 3 * 16 * (32 + 2) : 4 * 3 * 16 * (16 + 2);
    expect(cost({codes, scales, starts, object(Kind::Weight, index),
                 object(Kind::Weight, index, "scales", offset), buffer(ScalarType::F32, {42})},
                {"layers[0].mlp.gate_up_proj"}),
           bytes + 5 * (codedRow + 42 * 4), 2 * 5 * 42 * 70);
  }
  // Rows of the table.
  for (int64_t index : {2, 3}) {
    uint64_t offset = scaleOffset(program.weights[size_t(index)]).value_or(0);
    expect(cost({object(Kind::Weight, index), object(Kind::Weight, index, "scales", offset),
                 object(Kind::Input, -1, "tokens"), buffer(ScalarType::F32, {70})},
                {"embed"}),
           5 * (3 * (index == 2 ? 32 + 2 : 16 + 2) + 70 * 4), 0);
  }
  // The cache: four lanes of one object, keys and values of 3 heads of 20 and their scales.
  constexpr double position = 2 * 3 * (20 + 4);
  std::vector<LaunchArgument> lanes = {
      object(Kind::Cache, 0, "k"), object(Kind::Cache, 0, "k_scales"), object(Kind::Cache, 0, "v"),
      object(Kind::Cache, 0, "v_scales")};
  expect(cost(lanes, {"layers[0].attn.append"}), 5 * position, 0);
  // A window of 8: one query sees 8 keys, the others 3, 4, 5 and 6.
  expect(cost(lanes, {"layers[0].attn.core"}), (8 + 6) * position,
         4 * 6 * 20 * (8 + 3 + 4 + 5 + 6));
}
