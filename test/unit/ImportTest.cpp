// The module that a configuration becomes.
#include "import/Import.h"

#include "dialect/gemma/Gemma.h"
#include "dialect/gemma/NodeKey.h"
#include "runtime/checkpoint/Checkpoint.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace gemma;

namespace {

/// test/data/models/narrow-12b with two layers, one of each kind.
ModelConfig twoLayers() {
  ModelConfig config;
  config.vocab = 512;
  config.hidden = 96;
  config.intermediate = 384;
  config.heads = 4;
  config.layerKinds = {LayerKind::Sliding, LayerKind::Global};
  config.sliding = {.kvHeads = 2, .headDim = 16, .window = 16, .rope = {1e4, 16, 16, 8}};
  config.global = {.kvHeads = 1, .headDim = 32, .rope = {1e6, 32, 32, 4}, .valuesAreKeys = true};
  config.rmsEps = 1e-6;
  config.softcap = 30;
  return config;
}

struct ImportTest : testing::Test {
  mlir::MLIRContext context;

  program::WeightOp weight(mlir::ModuleOp module, llvm::StringRef name) {
    return module.lookupSymbol<program::WeightOp>(name);
  }
};

TEST_F(ImportTest, ValuesAreTheRawKeysOfGlobalLayers) {
  auto module = importModel(context, twoLayers(), {ScalarType::F64});
  ASSERT_TRUE(module);
  int found = 0;
  module->walk([&](ir::RmsNormUnitOp vNorm) {
    ++found;
    // The other user of the raw keys is their norm.
    bool shared = !vNorm.getX().hasOneUse();
    EXPECT_EQ(shared, ir::nodeKey(vNorm.getLoc()) == "layers[1].attn.v_norm");
  });
  EXPECT_EQ(found, 2);
  EXPECT_EQ(weight(*module, "l0.qkv").getSources().size(), 3u);
  EXPECT_EQ(weight(*module, "l1.qkv").getSources().size(), 2u);
}

TEST_F(ImportTest, NumericsOfBf16) {
  auto module = importModel(context, twoLayers(), {ScalarType::BF16});
  ASSERT_TRUE(module);
  auto element = [&](llvm::StringRef name) {
    return llvm::cast<mlir::ShapedType>(weight(*module, name).getType()).getElementType();
  };
  EXPECT_TRUE(element("l0.down").isBF16());
  EXPECT_TRUE(element("l0.input_norm").isF32());
  EXPECT_TRUE(element("l0.layer_scalar").isF32());
  EXPECT_TRUE(module->lookupSymbol<program::CacheOp>("c0").getElem().isBF16());
}

TEST_F(ImportTest, UntiedHeadHasItsOwnWeight) {
  ModelConfig config = twoLayers();
  auto tied = importModel(context, config, {ScalarType::F32});
  EXPECT_FALSE(weight(*tied, "lm_head"));
  config.tiedHead = false;
  config.softcap.reset();
  auto untied = importModel(context, config, {ScalarType::F32});
  ASSERT_TRUE(weight(*untied, "lm_head"));
  untied->walk([](ir::LmHeadOp head) {
    EXPECT_EQ(head.getWeight(), "lm_head");
    EXPECT_FALSE(head.getSoftcap());
  });
}

TEST_F(ImportTest, RefusesOtherTypes) {
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    message = diagnostic.str();
    return mlir::success();
  });
  EXPECT_FALSE(importModel(context, twoLayers(), {ScalarType::I8}));
  EXPECT_EQ(message, "cannot import with dtype i8, expected f64, f32 or bf16");
}

TEST_F(ImportTest, KeysOfTheNodes) {
  auto module = importModel(context, twoLayers(), {ScalarType::F64});
  ASSERT_TRUE(module);
  std::vector<std::string> keys;
  auto step = module->lookupSymbol<mlir::func::FuncOp>("step");
  for (mlir::Operation &op : step.getBody().front())
    if (llvm::isa<ir::GemmaDialect>(op.getDialect())) {
      llvm::StringRef part = ir::nodePart(op.getLoc());
      keys.push_back(ir::nodeKey(op.getLoc()).str() + (part.empty() ? "" : ":") + part.str());
    }
  std::vector<std::string> expected = {"embed"};
  for (std::string layer : {"layers[0].", "layers[1]."})
    for (std::string node :
         {"input_norm", "attn.qkv_proj", "attn.qk_norm:q", "attn.qk_norm:k", "attn.v_norm",
          "attn.rope:q", "attn.rope:k", "attn.append", "attn.core", "attn.o_proj", "post_mix_norm",
          "attn_residual", "post_attn_norm", "mlp.gate_up", "mlp.act", "mlp.down", "post_ffn_norm",
          "mlp_residual"})
      expected.push_back(layer + node);
  expected.insert(expected.end(), {"select_rows", "final_norm", "lm_head"});
  EXPECT_EQ(keys, expected);
}

/// Elements of all weights of a published configuration.
int64_t parameters(mlir::MLIRContext &context, const std::string &file) {
  auto config = readModelConfig(GEMMA_SOURCE_DIR "/test/data/models/published/" + file);
  EXPECT_TRUE(config) << config.error().message;
  if (!config)
    return 0;
  auto module = importModel(context, *config, {ScalarType::BF16});
  EXPECT_TRUE(module);
  int64_t total = 0;
  for (auto weight : module->getOps<program::WeightOp>())
    total += llvm::cast<mlir::ShapedType>(weight.getType()).getNumElements();
  return total;
}

TEST_F(ImportTest, ParametersOfThePublishedModels) {
  // The spec pages' numbers.
  EXPECT_EQ(parameters(context, "gemma-4-12b.config.json"), 11'907'350'320);
  EXPECT_EQ(parameters(context, "gemma-4-31b.config.json"), 30'697'345'340);
}

TEST_F(ImportTest, SourcesAreTheRequiredTensors) {
  ModelConfig config = twoLayers();
  config.tiedHead = false;
  auto module = importModel(context, config, {ScalarType::F64});
  ASSERT_TRUE(module);
  TensorTable table = requiredTensors(config);
  size_t used = 0;
  for (auto weight : module->getOps<program::WeightOp>()) {
    int64_t rows = 0;
    auto shape = llvm::cast<mlir::ShapedType>(weight.getType()).getShape();
    for (auto source : weight.getSources().getAsRange<mlir::StringAttr>()) {
      ASSERT_TRUE(table.contains(source.str())) << source.str();
      const TensorInfo &tensor = table.at(source.str());
      EXPECT_EQ(tensor.shape.size(), shape.size()) << source.str();
      EXPECT_EQ(tensor.shape.back(), shape.size() == 2 ? shape.back() : tensor.shape.back());
      rows += tensor.shape[0];
      ++used;
    }
    EXPECT_EQ(rows, shape[0]) << weight.getSymName().str();
  }
  EXPECT_EQ(used, table.size());
}

} // namespace
