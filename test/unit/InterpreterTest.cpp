// The interpreter on whole models, against the official implementation in f64.
#include "ReferenceModel.h"

#include "dialect/gemma/Gemma.h"
#include "dialect/gemma/NodeKey.h"

#include "mlir/Parser/Parser.h"

#include <set>

using namespace gemma;
using namespace gemma::test;

namespace {

class InterpreterModels : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    model = ReferenceModel::open(std::string("test/data/models/") + GetParam());
    ASSERT_TRUE(model);
    interpreter.emplace(*model->module, model->weights);
    innerLength = model->reference.innerPrompt();
  }

  Ids prompt(const std::string &length) {
    return model->reference.ids("prompt." + length + ".tokens");
  }

  /// The names of the reference's inner values that, side by side, are the result of `op`.
  std::vector<std::string> namesOf(mlir::Operation *op);
  /// Those values, in the shape of the result.
  std::optional<Tensor> expected(mlir::Operation *op, unsigned result = 0);
  /// Expects that all that the reference has was compared.
  void expectAll(const std::set<std::string> &compared);

  std::unique_ptr<ReferenceModel> model;
  std::optional<Interpreter> interpreter;
  std::string innerLength; ///< of the prompt whose inner values are known
};

/// NAME of the inner values that, side by side, are the output of a layer's node.
std::vector<std::string> subNames(const std::string &node) {
  static const std::map<std::string, std::vector<std::string>> names = {
      {"input_norm", {"input_layernorm"}},
      {"attn.qkv_proj", {"q_proj", "k_proj", "v_proj"}},
      {"attn.qk_norm:q", {"q_norm"}},
      {"attn.qk_norm:k", {"k_norm"}},
      {"attn.v_norm", {"v_norm"}},
      {"attn.rope:q", {"q_rope"}},
      {"attn.rope:k", {"k_rope"}},
      {"attn.core", {"attn_out"}},
      {"attn.o_proj", {"o_proj"}},
      {"post_mix_norm", {"post_attention_layernorm"}},
      {"attn_residual", {"attn_residual"}},
      {"post_attn_norm", {"pre_feedforward_layernorm"}},
      {"mlp.gate_up", {"gate_proj", "up_proj"}},
      {"mlp.act", {"mlp_act"}},
      {"mlp.down", {"down_proj"}},
      {"post_ffn_norm", {"post_feedforward_layernorm"}},
  };
  auto found = names.find(node);
  return found == names.end() ? std::vector<std::string>() : found->second;
}

std::vector<std::string> InterpreterModels::namesOf(mlir::Operation *op) {
  if (!llvm::isa<ir::GemmaDialect>(op->getDialect()) || llvm::isa<ir::CacheAppendOp>(op))
    return {};
  std::string key = ir::nodeKey(op->getLoc()).str(), part = ir::nodePart(op->getLoc()).str();
  if (key == "embed" || key == "final_norm")
    return {"hidden." + innerLength + "." + key};
  if (key == "lm_head")
    return {"prompt." + innerLength + ".logits"};
  size_t close = key.find(']');
  if (close == std::string::npos)
    return {};
  std::string layer = key.substr(7, close - 7), node = key.substr(close + 2);
  if (node == "mlp_residual")
    return {"hidden." + innerLength + ".layer." + layer};
  std::vector<std::string> names;
  for (const std::string &name : subNames(part.empty() ? node : node + ":" + part)) {
    std::string whole = "sub." + innerLength + ".layer." + layer + "." + name;
    if (model->reference.tensors().find(whole)) // not of every layer, and values only of some
      names.push_back(whole);
  }
  return names;
}

std::optional<Tensor> InterpreterModels::expected(mlir::Operation *op, unsigned result) {
  std::vector<Tensor> parts;
  for (const std::string &name : namesOf(op))
    parts.push_back(model->reference.tensor(name));
  if (parts.empty())
    return std::nullopt;
  Tensor joined = parts.size() == 1 ? parts[0] : sideBySide(parts);
  // attn_out has its heads joined, the node has not.
  auto type = llvm::cast<mlir::RankedTensorType>(op->getResult(result).getType());
  if (joined.rank() == 2 && type.getRank() == 3)
    joined.shape = {joined.dim(0), type.getDimSize(1), type.getDimSize(2)};
  return joined;
}

void InterpreterModels::expectAll(const std::set<std::string> &compared) {
  EXPECT_TRUE(compared.contains("prompt." + innerLength + ".logits"));
  for (const std::string &name : model->reference.innerNames())
    if (!name.ends_with(".layer_output")) // compared as hidden.L.layer.I
      EXPECT_TRUE(compared.contains(name)) << name << " is of no node";
}

TEST_P(InterpreterModels, LogitsOfEveryPrompt) {
  for (int64_t length : model->reference.promptLengths()) {
    Ids tokens = prompt(std::to_string(length));
    interpreter->drop(0);
    Tensor logits = logitsOf(*interpreter, Batch::single(length), tokens);
    Tensor truth = model->reference.tensor("prompt." + std::to_string(length) + ".logits");
    EXPECT_LE(distance(logits, truth), 5e-14) << length;

    double loglik = 0;
    for (int64_t t = 0; t + 1 < length; ++t) {
      double total = 0;
      for (double z : logits.row(t))
        total += std::exp(z);
      loglik += logits.row(t)[size_t(tokens[size_t(t + 1)])] - std::log(total);
    }
    double expected =
        model->reference.tensor("prompt." + std::to_string(length) + ".loglik").data[0];
    EXPECT_NEAR(loglik, expected, 1e-12 * std::max(1.0, std::fabs(expected))) << length;
  }
  EXPECT_EQ(model->reference.promptLengths().size(), 7u);
}

TEST_P(InterpreterModels, NodesErrorsAccumulate) {
  Ids tokens = prompt(innerLength);
  std::set<std::string> seen;
  double worst = 0;
  interpreter->observe([&](mlir::Operation *op, unsigned result, const Tensor &got) {
    auto truth = expected(op, result);
    if (!truth)
      return;
    double d = distance(got, *truth);
    worst = std::max(worst, d);
    EXPECT_LE(d, 5e-14) << ir::nodeKey(op->getLoc()).str();
    for (std::string &name : namesOf(op))
      seen.insert(std::move(name));
  });
  logitsOf(*interpreter, Batch::single(int64_t(tokens.size())), tokens);
  expectAll(seen);
  RecordProperty("worst", std::to_string(worst));
  std::printf("  worst node, errors accumulating: %.2g\n", worst);
}

TEST_P(InterpreterModels, NodesFedWithTheReference) {
  Ids tokens = prompt(innerLength);
  interpreter->overrideInputs(
      [&](mlir::Operation *op, unsigned operand, const NodeValue &) -> std::optional<NodeValue> {
        mlir::Operation *producer = op->getOperand(operand).getDefiningOp();
        // Rows are selected in order, all of them: what goes in is what comes out.
        if (auto select = llvm::dyn_cast_or_null<ir::SelectRowsOp>(producer))
          producer = select.getX().getDefiningOp();
        if (producer)
          if (auto tensor = expected(producer))
            return NodeValue(*std::move(tensor));
        return std::nullopt;
      });
  double worst = 0;
  std::string where;
  std::set<std::string> compared;
  interpreter->observe([&](mlir::Operation *op, unsigned result, const Tensor &got) {
    auto truth = expected(op, result);
    if (!truth)
      return;
    for (std::string &name : namesOf(op))
      compared.insert(std::move(name));
    double d = distance(got, *truth);
    if (d > worst) {
      worst = d;
      where = ir::nodeKey(op->getLoc()).str();
    }
    EXPECT_LE(d, 3e-15) << ir::nodeKey(op->getLoc()).str();
  });
  logitsOf(*interpreter, Batch::single(int64_t(tokens.size())), tokens);
  expectAll(compared);
  std::printf("  worst node, fed: %.2g at %s\n", worst, where.c_str());
}

TEST_P(InterpreterModels, ChunksEqualTheWhole) {
  Ids tokens = prompt("100");
  Tensor whole = logitsOf(*interpreter, Batch::single(100), tokens);
  Interpreter chunked(*model->module, model->weights);
  for (int64_t chunk : {1, 7, 16}) {
    int64_t sequence = chunk;
    for (int64_t first = 0; first < 100; first += chunk) {
      int64_t count = std::min(chunk, 100 - first);
      Ids part(tokens.begin() + first, tokens.begin() + first + count);
      Tensor logits = logitsOf(chunked, Batch::single(count, first, sequence), part);
      // A row's arithmetic does not depend on the rows beside it.
      ASSERT_EQ(logits, rowRange(whole, first, first + count)) << chunk << " at " << first;
    }
    for (int64_t layer = 0; layer < model->checkpoint.config().layers(); ++layer) {
      std::string symbol = "c" + std::to_string(layer);
      const KeyValues *got = chunked.cache(symbol, sequence);
      const KeyValues *expected = interpreter->cache(symbol);
      ASSERT_TRUE(got && expected);
      EXPECT_EQ(got->k, expected->k);
      EXPECT_EQ(got->v, expected->v);
      EXPECT_EQ(got->length(), 100);
    }
  }
}

TEST_P(InterpreterModels, RaggedBatchEqualsEachAlone) {
  Ids tokens = prompt("100");
  auto part = [&](int64_t first, int64_t last) {
    return Ids(tokens.begin() + first, tokens.begin() + last);
  };
  // Three sequences: A from its start, B in its middle, C one token at a time.
  Interpreter alone(*model->module, model->weights);
  Tensor a = logitsOf(alone, Batch::single(20, 0, 1), part(0, 20));
  logitsOf(alone, Batch::single(30, 0, 2), part(50, 80));
  Tensor b = logitsOf(alone, Batch::single(3, 30, 2), part(80, 83));
  logitsOf(alone, Batch::single(18, 0, 3), part(30, 48));
  Tensor c = logitsOf(alone, Batch::single(1, 18, 3), part(48, 49));

  Batch first, second;
  first.add(3, 18, 0);
  first.add(2, 30, 0);
  Ids firstTokens = part(30, 48), secondTokens = part(48, 49);
  for (int32_t token : part(50, 80))
    firstTokens.push_back(token);
  logitsOf(*interpreter, first, firstTokens);
  second.add(3, 1, 18);
  second.add(1, 20, 0);
  second.add(2, 3, 30);
  for (int32_t token : part(0, 20))
    secondTokens.push_back(token);
  for (int32_t token : part(80, 83))
    secondTokens.push_back(token);
  Tensor together = logitsOf(*interpreter, second, secondTokens);
  EXPECT_EQ(rowRange(together, 0, 1), c);
  EXPECT_EQ(rowRange(together, 1, 21), a);
  EXPECT_EQ(rowRange(together, 21, 24), b);
}

TEST_P(InterpreterModels, GreedyContinuations) {
  for (std::string n : {"0", "1", "2"}) {
    std::string name = "greedy." + n + ".";
    Ids tokens = model->reference.ids(name + "prompt");
    Ids expected = model->reference.ids(name + "tokens");
    Tensor margins = model->reference.tensor(name + "margin");
    interpreter->drop(0);
    int64_t length = 0;
    for (size_t step = 0; step < expected.size(); ++step) {
      int64_t count = int64_t(tokens.size());
      auto result = interpreter->step(Batch::single(count, length), tokens, {int32_t(count - 1)});
      ASSERT_TRUE(result) << result.error().message;
      length += count;
      auto row = result->logits().row(0);
      size_t best = size_t(std::max_element(row.begin(), row.end()) - row.begin());
      double second = -INFINITY;
      for (size_t v = 0; v < row.size(); ++v)
        if (v != best)
          second = std::max(second, row[v]);
      ASSERT_EQ(int32_t(best), expected[step]) << name << step;
      EXPECT_NEAR(row[best] - second, margins.data[step], 2e-12) << name << step;
      tokens = {int32_t(best)};
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, InterpreterModels,
                         testing::Values("narrow-12b", "narrow-31b", "text-only-f32",
                                         "narrow-12b-tail"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(InterpreterKjv, Logits) {
  auto model = ReferenceModel::open("examples/kjv-mini");
  ASSERT_TRUE(model);
  Interpreter interpreter(*model->module, model->weights);
  Ids tokens = model->reference.ids("logits100.tokens");
  Tensor logits = logitsOf(interpreter, Batch::single(100), tokens);
  EXPECT_LE(distance(logits, model->reference.tensor("logits100.f64")), 5e-14);
}

struct InterpreterSteps : testing::Test {
  void SetUp() override {
    model = ReferenceModel::open("test/data/models/text-only-f32");
    ASSERT_TRUE(model);
    interpreter.emplace(*model->module, model->weights);
    tokens = model->reference.ids("prompt.100.tokens");
  }
  Ids part(int64_t first, int64_t last) {
    return Ids(tokens.begin() + first, tokens.begin() + last);
  }
  std::string errorOf(const Batch &batch, const Ids &ids, const Ids &rows) {
    auto result = interpreter->step(batch, ids, rows);
    return result ? "" : result.error().message;
  }

  std::unique_ptr<ReferenceModel> model;
  std::optional<Interpreter> interpreter;
  Ids tokens;
};

TEST_F(InterpreterSteps, TokensCanBeTakenBack) {
  Tensor whole = logitsOf(*interpreter, Batch::single(30), part(0, 30));
  interpreter->drop(0);
  logitsOf(*interpreter, Batch::single(20), part(0, 20));
  logitsOf(*interpreter, Batch::single(9, 20), part(70, 79));
  Tensor again = logitsOf(*interpreter, Batch::single(10, 20), part(20, 30));
  EXPECT_EQ(again, rowRange(whole, 20, 30));
  EXPECT_EQ(interpreter->cache("c0")->length(), 30);
}

TEST_F(InterpreterSteps, ARefusedStepChangesNothing) {
  logitsOf(*interpreter, Batch::single(5), part(0, 5));
  EXPECT_EQ(errorOf(Batch::single(2, 6), part(6, 8), {0}),
            "gemma.cache_append at layers[0].attn.append: sequence 0: the step begins at position "
            "6, the cache ends at 5");
  EXPECT_EQ(errorOf(Batch::single(1, 5), {515}, {0}),
            "gemma.embed at embed: token id 515, expected 0 to 514");
  EXPECT_EQ(errorOf(Batch::single(1, 5), {-1}, {0}),
            "gemma.embed at embed: token id -1, expected 0 to 514");
  // Found at the last op but two, after every cache was appended to.
  EXPECT_EQ(errorOf(Batch::single(1, 5), {3}, {1}),
            "gemma.select_rows at select_rows: row 1, expected 0 to 0");
  EXPECT_EQ(interpreter->cache("c0")->length(), 5);
  EXPECT_EQ(interpreter->cache("c5")->length(), 5);
}

TEST_F(InterpreterSteps, BatchesThatAreNone) {
  EXPECT_EQ(errorOf({}, {}, {}), "batch: expected 1 or more sequences, as many lengths, one row "
                                 "start more; got 0, 0, 0");
  EXPECT_EQ(errorOf(Batch::single(3), part(0, 2), {0}),
            "batch: expected row starts from 0 to 2, got 0 to 3");
  Batch twice;
  twice.add(7, 1, 0);
  twice.add(7, 1, 0);
  EXPECT_EQ(errorOf(twice, part(0, 2), {0}), "batch: a sequence has two rows");
  EXPECT_EQ(errorOf({{0, 1}, {0, 0, 2}, {5, 5}}, part(0, 2), {0}),
            "batch: row 0 has 0 tokens of a sequence of 5");
  EXPECT_EQ(errorOf({{0}, {0, 2}, {1}}, part(0, 2), {0}),
            "batch: row 0 has 2 tokens of a sequence of 1");
}

//===----------------------------------------------------------------------===//
// Small modules, random weights
//===----------------------------------------------------------------------===//

constexpr const char *ungrouped = R"(
  program.weight @n : tensor<6xf32> from ["layers.0.input_layernorm.weight"]
  program.weight @w : tensor<4x6xbf16> from ["layers.0.mlp.down_proj.weight"]
  func.func @step(%t: tensor<?xi32>, %x: tensor<?x6xf32>) -> (tensor<?x4xf32>, tensor<?x6xf32>) {
    %0 = gemma.residual %x, %x {r = 0.5 : f64} : tensor<?x6xf32>
    %1 = gemma.rmsnorm %0, @n {eps = 1.0e-6 : f64} : tensor<?x6xf32>
    %2 = gemma.linear %1, @w : tensor<?x6xf32> -> tensor<?x4xf32>
    return %2, %0 : tensor<?x4xf32>, tensor<?x6xf32>
  })";
constexpr const char *grouped = R"(
  program.weight @n : tensor<6xf32> from ["layers.0.input_layernorm.weight"]
  program.weight @w : tensor<4x6xbf16> from ["layers.0.mlp.down_proj.weight"]
  func.func @step(%t: tensor<?xi32>, %x: tensor<?x6xf32>) -> (tensor<?x4xf32>, tensor<?x6xf32>) {
    %y, %h = gemma.group -> tensor<?x4xf32>, tensor<?x6xf32> {
      %0 = gemma.residual %x, %x {r = 0.5 : f64} : tensor<?x6xf32>
      %1 = gemma.rmsnorm %0, @n {eps = 1.0e-6 : f64} : tensor<?x6xf32>
      %2 = gemma.linear %1, @w : tensor<?x6xf32> -> tensor<?x4xf32>
      gemma.yield %2, %0 : tensor<?x4xf32>, tensor<?x6xf32>
    }
    return %y, %h : tensor<?x4xf32>, tensor<?x6xf32>
  })";

struct InterpreterNodes : testing::Test {
  InterpreterNodes() {
    mlir::DialectRegistry registry;
    registerImportDialects(registry);
    context.appendDialectRegistry(registry);
  }
  mlir::OwningOpRef<mlir::ModuleOp> parse(const char *text) {
    return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }
  template <typename Op> Op first(mlir::ModuleOp module) {
    Op found;
    module.walk([&](Op op) {
      found = op;
      return mlir::WalkResult::interrupt();
    });
    return found;
  }

  mlir::MLIRContext context;
  reference::RandomWeights weights{7};
};

TEST_F(InterpreterNodes, AGroupIsItsRegion) {
  auto flat = parse(ungrouped), deep = parse(grouped);
  ASSERT_TRUE(flat && deep);
  Interpreter a(*flat, weights), b(*deep, weights);
  Tensor x({2, 6}, {1, 2, 3, 4, 5, 6, -1, 0, 1, 0, -1, 7});
  NodeValue input = x;

  auto group = b.runNode(first<ir::GroupOp>(*deep), {&input, 1});
  ASSERT_TRUE(group) << group.error().message;
  ASSERT_EQ(group->size(), 2u);
  std::vector<NodeValue> twice = {x, x};
  auto h = a.runNode(first<ir::ResidualOp>(*flat), twice);
  ASSERT_TRUE(h) << h.error().message;
  EXPECT_EQ(std::get<Tensor>((*h)[0]).data[1], 3); // 2 + 0.5 · 2
  auto n = a.runNode(first<ir::RmsNormOp>(*flat), *h);
  ASSERT_TRUE(n) << n.error().message;
  auto y = a.runNode(first<ir::LinearOp>(*flat), *n);
  ASSERT_TRUE(y) << y.error().message;
  EXPECT_EQ(std::get<Tensor>((*group)[0]), std::get<Tensor>((*y)[0]));
  EXPECT_EQ(std::get<Tensor>((*group)[1]), std::get<Tensor>((*h)[0]));
}

TEST_F(InterpreterNodes, WrongInputs) {
  auto module = parse(ungrouped);
  ASSERT_TRUE(module);
  Interpreter interpreter(*module, weights);
  std::vector<NodeValue> narrow = {Tensor({2, 5})}, ids = {Ids{1}}, none;
  auto linear = first<ir::LinearOp>(*module);
  EXPECT_EQ(interpreter.runNode(linear, narrow).error().message,
            "gemma.linear: operand 0 does not have the operand's type");
  EXPECT_EQ(interpreter.runNode(linear, ids).error().message,
            "gemma.linear: operand 0 does not have the operand's type");
  EXPECT_EQ(interpreter.runNode(linear, none).error().message,
            "gemma.linear: expected 1 inputs, got 0");
}

TEST_F(InterpreterNodes, OpsItDoesNotKnow) {
  auto module = parse(R"(
    func.func @step(%t: tensor<?xi32>) -> tensor<?xi32> {
      %0 = arith.addi %t, %t : tensor<?xi32>
      return %0 : tensor<?xi32>
    })");
  ASSERT_TRUE(module);
  Interpreter interpreter(*module, weights);
  auto result = interpreter.step(Batch::single(1), {1}, {0});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "arith.addi: the reference does not know this op");
  EXPECT_EQ(interpreter.step(Batch::single(1), {1}, {0}, "other").error().message,
            "the module has no function @other");
}

TEST(RandomWeights, SuitTheirNames) {
  auto momentsOf = [](const Tensor &x) {
    double sum = 0, squares = 0;
    for (double value : x.data) {
      sum += value;
      squares += value * value;
    }
    double mean = sum / double(x.data.size());
    return std::pair(mean, std::sqrt(squares / double(x.data.size()) - mean * mean));
  };
  using reference::randomTensor;
  Tensor w = randomTensor(1, "layers.3.mlp.down_proj.weight", {200, 100});
  auto [mean, deviation] = momentsOf(w);
  EXPECT_NEAR(mean, 0, 0.003);
  EXPECT_NEAR(deviation, 0.1, 0.003);
  EXPECT_EQ(w, randomTensor(1, "layers.3.mlp.down_proj.weight", {200, 100}));
  EXPECT_NE(w, randomTensor(2, "layers.3.mlp.down_proj.weight", {200, 100}));
  EXPECT_NE(w, randomTensor(1, "layers.4.mlp.down_proj.weight", {200, 100}));
  for (double value : randomTensor(1, "norm.weight", {1000}).data) {
    EXPECT_GE(value, 0.69);
    EXPECT_LE(value, 1.31);
    EXPECT_EQ(value, double(float(value))); // and the low half of the float is zero
    uint32_t bits;
    float narrow = float(value);
    std::memcpy(&bits, &narrow, 4);
    EXPECT_EQ(bits & 0xffff, 0u);
  }
  double scalar = randomTensor(1, "layers.0.layer_scalar", {1}).data[0];
  EXPECT_GE(scalar, 0.299);
  EXPECT_LE(scalar, 1.201);
}

TEST(RandomWeights, ARecipeIsItsSources) {
  auto model = ReferenceModel::open("test/data/models/narrow-12b");
  ASSERT_TRUE(model);
  TensorTable shapes = requiredTensors(model->checkpoint.config());
  reference::RandomWeights weights(5, shapes);
  auto qkv = weights.weight(model->module->lookupSymbol<program::WeightOp>("l0.qkv"));
  ASSERT_TRUE(qkv) << qkv.error().message;
  std::vector<double> expected;
  for (std::string part : {"q_proj", "k_proj", "v_proj"}) {
    std::string name = "layers.0.self_attn." + part + ".weight";
    Tensor tensor = reference::randomTensor(5, name, shapes.at(name).shape);
    expected.insert(expected.end(), tensor.data.begin(), tensor.data.end());
  }
  EXPECT_EQ(qkv->shape, (std::vector<int64_t>{128, 96}));
  EXPECT_EQ(qkv->data, expected);
}

} // namespace
