// The derived spec sheets against the spec pages, row by row, and the published figures.
#include "tools/verify/SpecSheet.h"

#include "import/Import.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "tools/verify/ModelSource.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringRef.h"
#include "gtest/gtest.h"

#include <fstream>

using namespace gemma;
using namespace gemma::verify;

namespace {

SpecSheet sheetOf(const std::string &model) {
  Expected<ModelSource> source = findModel(model);
  EXPECT_TRUE(source) << source.error().message;
  if (!source)
    return {};
  mlir::MLIRContext context;
  auto module = importModel(context, source->config, {ScalarType::BF16});
  EXPECT_TRUE(module);
  return module ? deriveSpec(*module, source->name, source->config.maxPositions) : SpecSheet();
}

/// The rows of a page's table with this heading, without back quotes.
std::vector<std::string> pageTable(const std::string &page, const std::string &heading) {
  std::vector<std::string> rows;
  std::ifstream file(GEMMA_SOURCE_DIR "/test/data/spec/" + page);
  bool inTable = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(heading)) {
      inTable = true;
    } else if (inTable) {
      if (!line.starts_with("`"))
        break;
      std::erase(line, '`');
      rows.push_back(line);
    }
  }
  return rows;
}

struct Published {
  const char *key;
  const char *page;
  int64_t parameters;
  int64_t kvBytesPerToken;
  std::vector<std::string> costs;
};

struct SpecSheetTest : testing::TestWithParam<Published> {
  SpecSheet sheet = sheetOf(GetParam().key);
};

TEST_P(SpecSheetTest, NodeTableIsThePagesRowByRow) {
  std::vector<std::string> rows;
  for (const SpecNode &node : sheet.nodes)
    rows.push_back(node.node + "\t" + node.opSpec + "\t" +
                   describeLayers(node.layers, sheet.layers) + "\t" + node.formula + "\t" +
                   node.constantList());
  std::vector<std::string> expected = pageTable(GetParam().page, "Node\tOp Spec\tLayers");
  EXPECT_EQ(expected.size(), 24u);
  EXPECT_EQ(rows, expected);
}

TEST_P(SpecSheetTest, TensorsAreThePagesRowByRow) {
  std::vector<std::string> rows;
  for (const SpecTensors &row : sheet.tensors) {
    std::string text;
    for (const auto &[name, shape] : row.tensors) {
      text += (text.empty() ? "" : ", ") + name + " [";
      for (const std::string &size : shape)
        text += (text.back() == '[' ? "" : ", ") + size;
      text += "]";
    }
    rows.push_back(row.node + "\t" + text);
  }
  std::vector<std::string> expected = pageTable(GetParam().page, "Node\tInputs and outputs");
  EXPECT_EQ(expected.size(), 18u);
  EXPECT_EQ(rows, expected);
}

TEST_P(SpecSheetTest, FiguresAreThePublishedOnes) {
  EXPECT_EQ(sheet.parameters, GetParam().parameters);
  EXPECT_EQ(sheet.costs.kvBytesPerToken, GetParam().kvBytesPerToken);
  EXPECT_EQ(sheet.domain.tokens, 262144);
  EXPECT_EQ(sheet.domain.sequences, 256);
  EXPECT_EQ(sheet.domain.positions, 262144);
  EXPECT_EQ(sheet.domain.page, 16);
  std::string text = printSpec(sheet);
  for (const std::string &cost : GetParam().costs)
    EXPECT_NE(text.find("  " + cost + "\n"), std::string::npos) << cost << "\n" << text;
}

INSTANTIATE_TEST_SUITE_P(
    Models, SpecSheetTest,
    testing::Values(Published{"google/gemma-4-12B",
                              "gemma-4-12B.md",
                              11907350320,
                              8192,
                              {"8 KiB", "2.31 GiB", "25.6 GFLOP", "93.9 TFLOP"}},
                    Published{"google/gemma-4-31B@1.0",
                              "gemma-4-31B.md",
                              30697345340,
                              40960,
                              {"40 KiB", "10.78 GiB", "65.8 GFLOP", "251.4 TFLOP"}}),
    [](const auto &info) { return info.index == 0 ? "Gemma12B" : "Gemma31B"; });

/// The cost model by hand, from a configuration alone.
CostModel costsByHand(const ModelConfig &config) {
  CostModel costs;
  auto pairs = [](int64_t first, int64_t count, int64_t window) {
    int64_t sum = 0;
    for (int64_t p = first; p < first + count; ++p)
      sum += window ? std::min(window, p + 1) : p + 1;
    return sum;
  };
  int64_t weights = 0;
  int64_t head = config.vocab * config.hidden;
  for (LayerKind kind : config.layerKinds) {
    const AttentionConfig &a = config.attention(kind);
    int64_t projections = config.heads + (a.valuesAreKeys ? 1 : 2) * a.kvHeads;
    weights += config.hidden * a.headDim * (projections + config.heads) +
               3 * config.hidden * config.intermediate;
    int64_t lane = a.kvHeads * a.headDim * 2;
    if (a.window) {
      costs.kvBytes += 2 * lane * std::min<int64_t>(a.window, 262144);
    } else {
      costs.kvBytesPerToken += lane;
      costs.kvBytes += lane * 262144;
    }
    int64_t perKey = 4 * config.heads * a.headDim;
    costs.decodeFlops += perKey * pairs(4096, 1, a.window);
    costs.prefillFlops += perKey * pairs(0, 4096, a.window);
  }
  costs.decodeFlops += 2 * (weights + head);
  costs.prefillFlops += 2 * (4096 * weights + head);
  return costs;
}

TEST(SpecSheetTest, CostsOfEveryModelAreThoseByHand) {
  for (const char *folder :
       {"test/data/models/narrow-12b", "test/data/models/narrow-31b",
        "test/data/models/narrow-12b-tail", "test/data/models/text-only-f32",
        "test/data/models/bad/base", "examples/kjv-mini", "test/data/configs/gemma-4-12B",
        "test/data/configs/gemma-4-12B-published", "test/data/configs/gemma-4-31B"}) {
    std::string path = std::string(GEMMA_SOURCE_DIR "/") + folder;
    SpecSheet sheet = sheetOf(path);
    Expected<ModelConfig> config = readModelConfig(path + "/config.json");
    ASSERT_TRUE(config) << folder;
    CostModel expected = costsByHand(*config);
    EXPECT_EQ(sheet.costs.kvBytesPerToken, expected.kvBytesPerToken) << folder;
    EXPECT_EQ(sheet.costs.kvBytes, expected.kvBytes) << folder;
    EXPECT_EQ(sheet.costs.decodeFlops, expected.decodeFlops) << folder;
    EXPECT_EQ(sheet.costs.prefillFlops, expected.prefillFlops) << folder;
    int64_t parameters = 0;
    for (const auto &[name, tensor] : requiredTensors(*config)) {
      int64_t count = 1;
      for (int64_t size : tensor.shape)
        count *= size;
      parameters += count;
    }
    EXPECT_EQ(sheet.parameters, parameters) << folder;
  }
}

TEST(SpecSheetTest, LayersAsThePageWritesThem) {
  EXPECT_EQ(describeLayers({}, 6), "—");
  EXPECT_EQ(describeLayers({0, 1, 2}, 3), "all 3");
  EXPECT_EQ(describeLayers({0, 1, 2, 3, 4}, 6), "5: all but 5");
  EXPECT_EQ(describeLayers({1, 5, 9}, 10), "3: 1, 5, 9");
  EXPECT_EQ(describeLayers({5, 11, 17, 23}, 24), "4: 5, 11, …, 23");
  EXPECT_EQ(describeLayers({1, 5, 9, 14}, 20), "4: 1, 5, 9, 14");
}

TEST(SpecSheetTest, AGlobalLayerFirstStillComesSecond) {
  Expected<ModelSource> source = findModel(GEMMA_SOURCE_DIR "/test/data/models/narrow-12b-tail");
  ASSERT_TRUE(source) << source.error().message;
  source->config.layerKinds.front() = LayerKind::Global;
  mlir::MLIRContext context;
  auto module = importModel(context, source->config, {ScalarType::BF16});
  ASSERT_TRUE(module);
  SpecSheet sheet = deriveSpec(*module, "m", 4096);
  auto core = std::ranges::find(sheet.nodes, "attn.core", &SpecNode::node);
  ASSERT_NE(core, sheet.nodes.end());
  EXPECT_EQ(core->opSpec, "slidingDecodeGQA");
  EXPECT_EQ(sheet.nodes.back().node, "lm_head");
}

TEST(ModelSourceTest, KeysVersionsAndNodes) {
  for (const char *text : {"google/gemma-4-12B@1.0", "google/gemma-4-12B@1.0.0"}) {
    Expected<ModelSource> source = findModel(text);
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ(source->name, "google/gemma-4-12B@1.0");
  }
  Expected<ModelSource> source = findModel("google/gemma-4-31B:layers[3]");
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(source->nodes, "layers[3]");
  EXPECT_EQ(source->config.layers(), 60);

  Expected<ModelSource> other = findModel("google/gemma-4-12B@2.0");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message, "google/gemma-4-12B: expected spec version 1.0, got \"2.0\"");
  Expected<ModelSource> unknown = findModel("google/gema-4-12b");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("did you mean google/gemma-4-12B"), std::string::npos)
      << unknown.error().message;
}

TEST(ModelSourceTest, ReducedSizesKeepPatternAndConstants) {
  for (const char *key : {"google/gemma-4-12B", "google/gemma-4-31B"}) {
    Expected<ModelSource> source = findModel(key);
    ASSERT_TRUE(source) << source.error().message;
    Expected<ModelConfig> reduced = reducedConfig(source->config);
    ASSERT_TRUE(reduced) << reduced.error().message;
    std::string narrow = std::string(key).ends_with("12B") ? "narrow-12b" : "narrow-31b";
    Expected<ModelConfig> expected =
        readModelConfig(GEMMA_SOURCE_DIR "/test/data/models/" + narrow + "/config.json");
    ASSERT_TRUE(expected) << expected.error().message;
    EXPECT_EQ(*reduced, *expected) << key;
  }
}

} // namespace
