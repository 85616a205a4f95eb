// Cases of nodes and models: what is written can be computed by others, and judged.
#include "tools/verify/NodeCase.h"

#include "import/Import.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/checkpoint/Widen.h"
#include "runtime/support/BFloat16.h"
#include "tools/compiler/Compiler.h"
#include "tools/verify/ModelCase.h"
#include "tools/verify/Verification.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>

using namespace gemma;
using namespace gemma::verify;
using reference::Tensor;

namespace {

Tensor floats(const SafetensorsFile &file, const std::string &name) {
  const SafetensorsEntry *entry = file.find(name);
  EXPECT_TRUE(entry) << name;
  return entry ? Tensor(entry->shape, widenAll(*entry->type, file.data(*entry))) : Tensor();
}
std::vector<int64_t> ids(const SafetensorsFile &file, const std::string &name) {
  const SafetensorsEntry *entry = file.find(name);
  EXPECT_TRUE(entry) << name;
  if (!entry)
    return {};
  std::vector<int64_t> values(size_t(entry->shape[0]));
  std::memcpy(values.data(), file.data(*entry).data(), values.size() * 8);
  return values;
}

/// A case of the narrow 12B in a temporary folder, to be answered.
struct NodeCaseTest : testing::Test {
  std::optional<TemporaryFolder> folder;
  std::optional<SafetensorsFile> file;

  void SetUp() override {
    auto made = TemporaryFolder::make();
    ASSERT_TRUE(made) << made.error().message;
    folder.emplace(*std::move(made));
  }
  std::filesystem::path casePath() const { return folder->path() / "case.safetensors"; }
  std::filesystem::path gotPath() const { return folder->path() / "got.safetensors"; }

  Expected<std::string> write(const std::string &nodes, const CaseOptions &options) {
    auto source = findModel(GEMMA_SOURCE_DIR "/test/data/models/narrow-12b");
    EXPECT_TRUE(source);
    return writeNodeCase(*source, nodes, options, casePath());
  }
  void make(const std::string &nodes, const CaseOptions &options) {
    auto key = write(nodes, options);
    ASSERT_TRUE(key) << key.error().message;
    auto opened = SafetensorsFile::open(casePath());
    ASSERT_TRUE(opened) << opened.error().message;
    file.emplace(*std::move(opened));
  }
  /// Answers with one output in a type; elements are little-endian.
  template <typename T, typename Convert>
  void answer(const std::string &name, ScalarType type, const Tensor &tensor, Convert convert) {
    std::vector<T> values;
    for (double x : tensor.data)
      values.push_back(convert(x));
    SafetensorsWriter writer;
    writer.add(name, type, tensor.shape, std::as_bytes(std::span(values)));
    Status written = writer.write(gotPath());
    ASSERT_TRUE(written) << written.error().message;
  }
  void answer(const std::string &name, const Tensor &tensor) {
    answer<double>(name, ScalarType::F64, tensor, [](double x) { return x; });
  }
  bool holds(const std::string &key, std::optional<ScalarType> dtype = std::nullopt) {
    auto report = checkNodeCase(key, casePath(), gotPath(), dtype);
    EXPECT_TRUE(report) << report.error().message;
    return report && report->holds();
  }
};

TEST_F(NodeCaseTest, NormByItsFormulaInEveryType) {
  const std::string key = "layers[*].input_norm";
  make(key, {.tokens = 5, .seq = 1, .seed = 9});
  Tensor x = floats(*file, "x"), w = floats(*file, "w"), y(x.shape);
  ASSERT_EQ(x.shape, (std::vector<int64_t>{5, 96}));
  for (int64_t t = 0; t < 5; ++t) {
    double squares = 0;
    for (double value : x.row(t))
      squares += value * value;
    for (size_t i = 0; i < 96; ++i)
      y.row(t)[i] = x.row(t)[i] / std::sqrt(squares / 96 + 1e-6) * w.data[i];
  }
  answer("y", y);
  EXPECT_TRUE(holds(key));
  answer<float>("y", ScalarType::F32, y, [](double v) { return float(v); });
  EXPECT_TRUE(holds(key));
  EXPECT_FALSE(holds(key, ScalarType::F64));
  answer<uint16_t>("y", ScalarType::BF16, y, [](double v) { return f32ToBf16(float(v)); });
  EXPECT_TRUE(holds(key));
  EXPECT_FALSE(holds(key, ScalarType::F32));
  y.data[7] += 1e-13;
  answer("y", y);
  EXPECT_FALSE(holds(key));
  y.data[7] = NAN;
  answer("y", y);
  EXPECT_FALSE(holds(key));
}

TEST_F(NodeCaseTest, AttentionByItsFormula) {
  const std::string key = "layers[*].attn.core";
  make(key, {.tokens = 4, .seq = 30, .seed = 2});
  Tensor q = floats(*file, "q"), k = floats(*file, "k"), v = floats(*file, "v");
  std::vector<int64_t> lengths = ids(*file, "seq_lens");
  ASSERT_EQ(q.shape, (std::vector<int64_t>{4, 4, 16}));
  ASSERT_EQ(k.shape, (std::vector<int64_t>{4, 30, 2, 16}));
  EXPECT_EQ(lengths[0], 30);
  auto at = [](const Tensor &x, int64_t b, int64_t s, int64_t c, int64_t d) {
    return x.data[size_t(((b * 30 + s) * 2 + c) * 16 + d)];
  };
  Tensor o(q.shape);
  for (int64_t b = 0; b < 4; ++b)
    for (int64_t h = 0; h < 4; ++h) {
      double sum = 0;
      std::span<double> out = std::span(o.data).subspan(size_t((b * 4 + h) * 16), 16);
      for (int64_t s = std::max<int64_t>(0, lengths[size_t(b)] - 16); s < lengths[size_t(b)]; ++s) {
        double score = 0;
        for (int64_t d = 0; d < 16; ++d)
          score += q.data[size_t((b * 4 + h) * 16 + d)] * at(k, b, s, h / 2, d);
        sum += std::exp(score);
        for (int64_t d = 0; d < 16; ++d)
          out[size_t(d)] += std::exp(score) * at(v, b, s, h / 2, d);
      }
      for (double &value : out)
        value /= sum;
    }
  answer("o", o);
  EXPECT_TRUE(holds(key));
  EXPECT_TRUE(holds("layers[0].attn.core"));
}

TEST_F(NodeCaseTest, RopeTurnsQueriesAndKeysByTheSamePositions) {
  make("layers[5].attn.rope", {.tokens = 6, .seq = 1000, .seed = 4});
  std::vector<int64_t> positions = ids(*file, "pos");
  EXPECT_EQ(positions[0], 999);
  for (std::string name : {"q", "k"}) {
    Tensor x = floats(*file, name), y = floats(*file, name + "_out");
    for (size_t t = 0; t < 6; ++t)
      for (size_t i = 0; i < 4; ++i) { // active pairs (i, i + 16) of the first head
        size_t at = t * size_t(x.count() / 6) + i;
        double angle = double(positions[t]) * std::pow(1e6, -2.0 * double(i) / 32);
        double expected = x.data[at] * std::cos(angle) - x.data[at + 16] * std::sin(angle);
        EXPECT_NEAR(y.data[at], expected, 1e-12);
      }
  }
}

TEST_F(NodeCaseTest, WhatIsRefused) {
  make("final_norm", {.tokens = 2});
  answer("z", Tensor({1}));
  auto missing = checkNodeCase("final_norm", casePath(), gotPath(), std::nullopt);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("no tensor \"y\""), std::string::npos);
  answer("y", Tensor({1, 96}));
  auto shape = checkNodeCase("final_norm", casePath(), gotPath(), std::nullopt);
  ASSERT_FALSE(shape);
  EXPECT_NE(shape.error().message.find("expected shape [2, 96], got [1, 96]"), std::string::npos);
  auto other = checkNodeCase("lm_head", casePath(), gotPath(), std::nullopt);
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("is a case of"), std::string::npos);
  auto noCase = checkNodeCase("final_norm", gotPath(), gotPath(), std::nullopt);
  ASSERT_FALSE(noCase);
  EXPECT_NE(noCase.error().message.find("is no case of gemma-verify"), std::string::npos);

  for (auto [nodes, options, message] :
       {std::tuple("layers[3].mlp", CaseOptions{}, "expected one node"),
        std::tuple("final_nrm", CaseOptions{}, "near ones are final_norm"),
        std::tuple("embed", CaseOptions{.tokens = 0}, "--tokens: expected 1 to 4096, got 0"),
        std::tuple("layers[0].attn.core", CaseOptions{.tokens = 257},
                   "--tokens: expected 1 to 256, got 257"),
        std::tuple("layers[0].attn.core", CaseOptions{.seq = 4097},
                   "--seq: expected 1 to 4096, got 4097")}) {
    auto refused = write(nodes, options);
    ASSERT_FALSE(refused) << nodes;
    EXPECT_NE(refused.error().message.find(message), std::string::npos) << refused.error().message;
  }
}

TEST(ModelCaseTest, AFolderThatCompilesToTheWrittenLogits) {
  auto folder = TemporaryFolder::make();
  ASSERT_TRUE(folder) << folder.error().message;
  auto source = findModel(GEMMA_SOURCE_DIR "/test/data/models/narrow-12b-tail");
  ASSERT_TRUE(source) << source.error().message;
  std::filesystem::path path = folder->path() / "model";
  Status written = writeModelCase(*source, {.tokens = 20, .seed = 6}, path);
  ASSERT_TRUE(written) << written.error().message;
  // Never over another checkpoint.
  EXPECT_FALSE(writeModelCase(*source, {}, path));

  auto checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_FALSE(checkpoint->config().tiedHead);
  EXPECT_EQ(checkpoint->config().layerKinds, source->config.layerKinds);
  auto reference = SafetensorsFile::open(path / "reference.safetensors");
  ASSERT_TRUE(reference) << reference.error().message;
  for (int64_t length : {1, 2, 15, 16, 17, 20, 53})
    EXPECT_EQ(ids(*reference, "prompt." + std::to_string(length) + ".tokens").size(),
              size_t(length));
  for (const char *name : {"hidden.53.embed", "hidden.53.layer.9", "hidden.53.final_norm",
                           "sub.53.layer.0.q_rope", "sub.53.layer.1.attn_out"})
    EXPECT_TRUE(reference->find(name)) << name;
  EXPECT_LT(floats(*reference, "prompt.53.loglik").data[0], 0);

  compiler::CompileOptions options;
  options.dtype = ScalarType::F64;
  options.maxContext = 64;
  options.isas = {"baseline"};
  auto artifact = compiler::compileModel(checkpoint->config(), options);
  ASSERT_TRUE(artifact) << artifact.error().message;
  mlir::MLIRContext context;
  auto module = importModel(context, checkpoint->config(), {ScalarType::F64});
  ASSERT_TRUE(module);
  auto model = Model::load(*artifact, *checkpoint, {});
  ASSERT_TRUE(model) << model.error().message;
  auto run = CompiledRun::start(*model, *module);
  ASSERT_TRUE(run) << run.error().message;
  std::vector<int64_t> tokens = ids(*reference, "prompt.53.tokens");
  EXPECT_EQ(tokens[0], 2);
  auto logits =
      (*run)->step(std::vector<int32_t>(tokens.begin(), tokens.end()), /*allLogits=*/true, nullptr);
  ASSERT_TRUE(logits) << logits.error().message;
  Distance distance;
  distance.add(*logits, floats(*reference, "prompt.53.logits"));
  EXPECT_LT(distance.value(), 5e-14);
}

} // namespace
