// Op Specs, formulas, constants and costs of the nodes against the spec pages in test/data/spec.
#include "import/Import.h"

#include "dialect/gemma/Gemma.h"
#include "dialect/gemma/NodeKey.h"
#include "runtime/checkpoint/Checkpoint.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <fstream>
#include <set>

using namespace gemma;

namespace {

/// A published model: its configuration, its page, and the figures of its cost model.
struct Published {
  const char *config;
  const char *page;
  const char *decodeGigaflop;  ///< one token with 4,096 cached positions
  const char *prefillTeraflop; ///< a prompt of 4,096, the head once
};

struct OpSpecTest : testing::TestWithParam<Published> {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;

  void SetUp() override {
    auto config = readModelConfig(std::string(GEMMA_SOURCE_DIR "/test/data/models/published/") +
                                  GetParam().config);
    ASSERT_TRUE(config) << config.error().message;
    module = importModel(context, *config, {ScalarType::BF16});
    ASSERT_TRUE(module);
  }

  ir::Cost total(const ir::CostSizes &sizes) {
    ir::Cost cost;
    module->walk([&](ir::CostOpInterface op) { cost += op.getCost(sizes); });
    return cost;
  }
};

/// The rows of a page's node table: node, Op Spec, formula, constants.
std::set<std::string> nodeTable(const std::string &page) {
  std::set<std::string> rows;
  std::ifstream file(GEMMA_SOURCE_DIR "/test/data/spec/" + page);
  bool inTable = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Node\tOp Spec\tLayers")) {
      inTable = true;
      continue;
    }
    if (!inTable)
      continue;
    if (!line.starts_with("`"))
      break;
    llvm::SmallVector<llvm::StringRef> cells;
    llvm::StringRef(line).split(cells, '\t');
    if (cells.size() != 5)
      break;
    rows.insert((cells[0].trim('`') + " | " + cells[1].trim('`') + " | " + cells[3].trim('`') +
                 " | " + cells[4].trim())
                    .str());
  }
  return rows;
}

TEST_P(OpSpecTest, NodesAreThoseOfTheSpecPage) {
  std::set<std::string> rows;
  module->walk([&](ir::SpecOpInterface op) {
    llvm::StringRef node = ir::nodeKey(op->getLoc());
    if (node.starts_with("layers["))
      node = node.split("].").second;
    std::string constants;
    for (const auto &[name, value] : op.getConstants())
      constants += (constants.empty() ? "" : ", ") + name + "=" + value;
    rows.insert(node.str() + " | " + op.getOpSpec().str() + " | " + op.getFormula() + " | " +
                constants);
  });
  std::set<std::string> expected = nodeTable(GetParam().page);
  EXPECT_EQ(expected.size(), 24u);
  EXPECT_EQ(rows, expected);
}

std::string rounded(int64_t flops, double unit) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", double(flops) / unit);
  return text;
}

TEST_P(OpSpecTest, FlopsAreThoseOfTheCostModel) {
  // With 4,096 positions in all, or beside the token's own: the figure is the same.
  for (int64_t context : {4095, 4096})
    EXPECT_EQ(rounded(total({.tokens = 1, .rows = 1, .context = context}).flops, 1e9),
              GetParam().decodeGigaflop);
  EXPECT_EQ(rounded(total({.tokens = 4096, .rows = 1, .context = 0}).flops, 1e12),
            GetParam().prefillTeraflop);
}

INSTANTIATE_TEST_SUITE_P(
    Models, OpSpecTest,
    testing::Values(Published{"gemma-4-12b.config.json", "gemma-4-12B.md", "25.6", "93.9"},
                    Published{"gemma-4-31b.config.json", "gemma-4-31B.md", "65.8", "251.4"}),
    [](const auto &info) { return info.index == 0 ? "Gemma12B" : "Gemma31B"; });

TEST(CostSizesTest, VisibleKeysOfEveryQuery) {
  for (int64_t tokens : {0, 1, 3, 20})
    for (int64_t context : {0, 1, 6, 7, 8, 30})
      for (int64_t window : {0, 1, 7, 8}) {
        ir::CostSizes sizes{.tokens = tokens, .rows = 1, .context = context};
        int64_t pairs = 0;
        std::set<int64_t> keys;
        for (int64_t p = context; p < context + tokens; ++p)
          for (int64_t l = 0; l <= p; ++l)
            if (window == 0 || p - window < l) {
              ++pairs;
              keys.insert(l);
            }
        EXPECT_EQ(sizes.visiblePairs(window), pairs) << tokens << " " << context << " " << window;
        EXPECT_EQ(sizes.visibleKeys(window), int64_t(keys.size()))
            << tokens << " " << context << " " << window;
      }
}

TEST(CostTest, BytesAndFlopsOfEachKindOfNode) {
  mlir::MLIRContext context;
  mlir::DialectRegistry registry;
  registerImportDialects(registry);
  context.appendDialectRegistry(registry);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
    program.weight @embed : tensor<100x8xbf16> from ["e"]
    program.weight @norm : tensor<8xf32> from ["n"]
    program.cache @c ring heads 2 dim 4 elem bf16 window 3 page 16
    func.func @f(%tokens: tensor<?xi32>, %rows: tensor<?xi32>, %q: tensor<?x4x4xf32>,
                 %cache: !gemma.cache<@c>, %batch: !gemma.batch) {
      %x = gemma.embed %tokens, @embed {mul = 1.0 : f64} : tensor<?xi32> -> tensor<?x8xf32>
      %a = gemma.gqa %q, %cache, %batch {kv_heads = 2 : i64, scale = 1.0 : f64, window = 3 : i64}
        : tensor<?x4x4xf32>, !gemma.cache<@c>
      %g = gemma.group -> tensor<?x8xf32> {
        %s = gemma.select_rows %x, %rows : tensor<?x8xf32>, tensor<?xi32> -> tensor<?x8xf32>
        gemma.yield %s : tensor<?x8xf32>
      }
      %n = gemma.rmsnorm %g, @norm {eps = 1.0e-6 : f64} : tensor<?x8xf32>
      %z = gemma.lm_head %n, @embed : tensor<?x8xf32> -> tensor<?x100xf32>
      return
    })",
                                                        &context);
  ASSERT_TRUE(module);
  // 5 new tokens after 10: every query sees 3 keys, all of them 7. Two rows have logits.
  ir::CostSizes sizes{.tokens = 5, .rows = 2, .context = 10};
  auto check = [&](llvm::StringRef spec, ir::Cost expected) {
    int found = 0;
    module->walk([&](ir::SpecOpInterface op) {
      if (op.getOpSpec() != spec)
        return;
      ++found;
      ir::Cost cost = llvm::cast<ir::CostOpInterface>(op.getOperation()).getCost(sizes);
      EXPECT_EQ(cost.flops, expected.flops) << spec.str();
      EXPECT_EQ(cost.weightBytes, expected.weightBytes) << spec.str();
      EXPECT_EQ(cost.activationBytes, expected.activationBytes) << spec.str();
      EXPECT_EQ(cost.cacheBytes, expected.cacheBytes) << spec.str();
    });
    EXPECT_EQ(found, 1) << spec.str();
  };
  // Only the rows of the table that are looked up; 4 bytes a token id.
  check("embed", {.weightBytes = 5 * 8 * 2, .activationBytes = 5 * 4 + 5 * 8 * 4});
  check("slidingDecodeGQA", {.flops = 4 * 4 * 4 * 15,
                             .activationBytes = 2 * 5 * 16 * 4,
                             .cacheBytes = 7 * 2 * 4 * 2 * 2});
  check("rmsnorm", {.weightBytes = 8 * 4, .activationBytes = 2 * 2 * 8 * 4});
  check("lmHead", {.flops = 2 * 2 * 8 * 100,
                   .weightBytes = 100 * 8 * 2,
                   .activationBytes = 2 * 8 * 4 + 2 * 100 * 4});
}

} // namespace
