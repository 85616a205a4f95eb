// Numeric faults that users of other systems reported, as acts on compiled models (docs/Cases.md
// has the sources).
#include "SyntheticModel.h"

#include "runtime/engine/AngleTables.h"
#include "tools/gemma-run/NodeLog.h"

using namespace gemma;
using namespace gemma::test;

namespace {

const compiler::CompileOptions f64Options = {
    .dtype = ScalarType::F64, .maxBatch = 3, .maxChunk = 64};

/// What every node gives for a prompt, under the names of the references.
ReferenceFile nodesOf(CompiledModel &compiled, const Ids &tokens) {
  run::NodeLog log(*compiled.context, int64_t(tokens.size()));
  log.beginStep(int64_t(tokens.size()));
  auto sequence = compiled.sequence();
  compiled.prefill(*sequence, tokens);
  TempFolder folder;
  EXPECT_OK(log.tensors().write(folder / "nodes.safetensors"));
  auto file = SafetensorsFile::open(folder / "nodes.safetensors");
  EXPECT_TRUE(file) << file.error().message;
  return ReferenceFile(std::move(*file));
}

/// Keys and values of layer 0 for a prompt.
std::pair<Tensor, Tensor> cachedBy(CompiledModel &compiled, const Ids &tokens) {
  auto sequence = compiled.sequence();
  compiled.prefill(*sequence, tokens);
  return compiled.cached(*sequence, 0);
}

TEST(NumericsCases, GlobalQkvIsQueriesAndKeysWide) {
  auto config = readModelConfig(sourcePath("test/data/configs/gemma-4-12B/config.json"));
  ASSERT_TRUE(config);
  auto program = compiler::planModel(*config, {.dtype = ScalarType::BF16});
  ASSERT_TRUE(program) << program.error().message;
  int64_t sliding = 0, global = 0;
  for (const WeightRecipe &weight : program->weights) {
    if (weight.sources.size() == 3) {
      EXPECT_EQ(weight.shape, (std::vector<int64_t>{16 * 256 + 2 * 8 * 256, 3840}));
      ++sliding;
    }
    if (weight.sources.size() == 2 && weight.sources[0].find("q_proj") != std::string::npos) {
      EXPECT_NE(weight.sources[1].find("k_proj"), std::string::npos);
      EXPECT_EQ(weight.shape, (std::vector<int64_t>{16 * 512 + 512, 3840}));
      ++global;
    }
  }
  EXPECT_EQ(sliding, 40);
  EXPECT_EQ(global, 8);
}

/// One full layer: V = k_raw / rms(k_raw), before k_norm's weight and the rotation.
TEST(NumericsCases, ValuesAreTheNormOfRawKeys) {
  SyntheticModel model("f");
  compiler::CompileOptions storing = f64Options; // keys, to look at them
  storing.kvSharing = false;
  CompiledModel compiled = model.compile(storing), shared = model.compile(f64Options);
  Ids ids = {5, 9, 5, 5, 9};
  auto [k, v] = cachedBy(compiled, ids);
  EXPECT_TRUE(cachedBy(shared, ids).second.data == v.data);
  // The raw keys by hand.
  const std::vector<float> &embedding = model["embed_tokens.weight"];
  const std::vector<float> &norm = model["layers.0.input_layernorm.weight"];
  const std::vector<float> &project = model["layers.0.self_attn.k_proj.weight"];
  for (size_t t = 0; t < ids.size(); ++t) {
    std::vector<double> x(16), raw(16);
    double squares = 0, rawSquares = 0;
    for (int i = 0; i < 16; ++i) {
      x[i] = 4.0 * embedding[ids[t] * 16 + i]; // √H = 4
      squares += x[i] * x[i];
    }
    for (int n = 0; n < 16; ++n) {
      for (int i = 0; i < 16; ++i)
        raw[n] += project[n * 16 + i] * x[i] / std::sqrt(squares / 16 + 1e-6) * norm[i];
      rawSquares += raw[n] * raw[n];
    }
    for (int n = 0; n < 16; ++n)
      EXPECT_NEAR(v.row(t)[n], raw[n] / std::sqrt(rawSquares / 16 + 1e-6), 1e-13)
          << "position " << t << " lane " << n;
  }
  // One token at three positions: the same value, other keys.
  for (int64_t t : {2, 3})
    for (int64_t n = 0; n < 16; ++n)
      EXPECT_EQ(v.row(t)[n], v.row(0)[n]);
  EXPECT_FALSE(std::equal(k.row(2).begin(), k.row(2).end(), k.row(0).begin()));
  // The norm's weight changes keys alone.
  model.fill("layers.0.self_attn.k_norm.weight", 1.75f);
  CompiledModel other = model.compile(storing);
  auto [k2, v2] = cachedBy(other, ids);
  EXPECT_TRUE(v2.data == v.data);
  EXPECT_FALSE(k2.data == k.data);
}

TEST(NumericsCases, ScaledKeysAndValuesAreNormedAway) {
  SyntheticModel model("sf");
  Ids ids = someIds(20);
  CompiledModel plain = model.compile(f64Options);
  auto sequence = plain.sequence();
  Tensor want = plain.prefill(*sequence, ids);
  for (const char *name : {"layers.0.self_attn.k_proj.weight", "layers.0.self_attn.v_proj.weight",
                           "layers.1.self_attn.k_proj.weight"})
    for (float &value : model[name])
      value *= 8;
  CompiledModel scaled = model.compile(f64Options);
  auto second = scaled.sequence();
  Tensor got = scaled.prefill(*second, ids);
  EXPECT_LE(distance(got, want), 2e-5); // eps = 1e-6 beside a mean square near 1
  EXPECT_GT(distance(got, want), 0);
}

/// A full layer of head dimension 16 rotates int(0.25 · 16 / 2) = 2 pairs: (0, 8) and (1, 9).
TEST(NumericsCases, PairsOfAGlobalLayer) {
  for (int64_t lane = 0; lane < 8; ++lane) {
    SyntheticModel model("f");
    std::vector<float> &project = model["layers.0.self_attn.k_proj.weight"];
    for (size_t i = 0; i < project.size(); ++i)
      project[i] *= int64_t(i) / 16 == lane ? 16 : 0; // eps does not matter
    CompiledModel compiled = model.compile(f64Options);
    auto [k, v] = cachedBy(compiled, someIds(4));
    bool rotated = lane < 2;
    double angle = 3 * std::pow(1e6, -2.0 * double(lane) / 16);
    double length = k.row(0)[lane]; // not rotated at position 0
    // Another token at position 3: its lane has the same size, up to the sign and eps.
    double sign = v.row(3)[lane] * v.row(0)[lane] < 0 ? -1 : 1;
    for (int64_t n = 0; n < 16; ++n) {
      double want = n == lane                  ? length * sign * (rotated ? std::cos(angle) : 1)
                    : n == lane + 8 && rotated ? length * sign * std::sin(angle)
                                               : 0;
      EXPECT_NEAR(k.row(3)[n], want, 1e-4) << "lane " << lane << " shows in " << n;
      if (n != lane && n != lane + 8)
        EXPECT_EQ(k.row(3)[n], 0);
    }
  }
}

TEST(NumericsCases, FrequenciesOfTheGlobalLayersOf12B) {
  auto config = readModelConfig(sourcePath("test/data/configs/gemma-4-12B/config.json"));
  ASSERT_TRUE(config);
  RopeConfig rope = config->global.rope;
  EXPECT_EQ(rope.rotary, 512);
  EXPECT_EQ(rope.active, 64); // the rest stands still
  TablePlan table{"angles", rope.theta, rope.denominator, rope.active, ScalarType::F64};
  std::vector<double> sine(size_t(512) * 64), cosine(sine.size());
  fillAngleLane(table, 3, std::as_writable_bytes(std::span(sine)));
  fillAngleLane(table, 2, std::as_writable_bytes(std::span(cosine)));
  double frequency = std::atan2(sine[64 + 1], cosine[64 + 1]); // position 1, pair 1
  EXPECT_NEAR(frequency, 0.947464, 5e-7);
  EXPECT_NEAR(frequency, std::pow(1e6, -2.0 / 512), 1e-15);
}

TEST(NumericsCases, LayerScalarScalesTheWholeLayer) {
  SyntheticModel model("sf");
  model.makeInert(0);
  model.makeInert(1);
  model.fill("layers.0.layer_scalar", 0.5);
  model.fill("layers.1.layer_scalar", 3);
  CompiledModel compiled =
      model.compile({.dtype = ScalarType::F64, .maxChunk = 64, .fusion = false});
  ReferenceFile nodes = nodesOf(compiled, someIds(5));
  Tensor input = nodes.tensor("hidden.5.embed");
  Tensor first = nodes.tensor("hidden.5.layer.0"), second = nodes.tensor("hidden.5.layer.1");
  for (size_t i = 0; i < input.data.size(); ++i) {
    EXPECT_EQ(first.data[i], 0.5 * input.data[i]);
    EXPECT_EQ(second.data[i], 1.5 * input.data[i]);
  }
}

/// The row times √H, once, exact in every type: H = 16 and, in the 12B, √3840 as it is.
TEST(NumericsCases, EmbeddingIsScaledByTheRootOfH) {
  SyntheticModel model("sf");
  Ids ids = someIds(5);
  for (ScalarType type : {ScalarType::F64, ScalarType::F32, ScalarType::BF16}) {
    CompiledModel compiled = model.compile({.dtype = type, .maxChunk = 64, .fusion = false});
    Tensor embedded = nodesOf(compiled, ids).tensor("hidden.5.embed");
    for (size_t t = 0; t < ids.size(); ++t)
      for (int64_t i = 0; i < 16; ++i) {
        double row = model["embed_tokens.weight"][ids[t] * 16 + i];
        if (type == ScalarType::BF16) // the stored row is rounded, the product is not
          EXPECT_NEAR(embedded.row(t)[i], 4 * row, std::fabs(row) * 4 / 256);
        else
          EXPECT_EQ(embedded.row(t)[i], 4 * row);
      }
  }
  auto config = readModelConfig(sourcePath("test/data/configs/gemma-4-12B/config.json"));
  ASSERT_TRUE(config);
  for (ScalarType type : {ScalarType::F32, ScalarType::BF16}) {
    auto text = compiler::compileToText(*config, {.dtype = type}, compiler::Phase::Import);
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_NE(text->find("61.967733539318672"), std::string::npos) << name(type);
  }
}

/// Raw logit 124 with softcap 30, in prefill and in decoding.
TEST(NumericsCases, SoftcapOf124) {
  SyntheticModel model("sf");
  model.makeInert(0);
  model.makeInert(1);
  // Token 1 is (1, 1, ..., 1): its norm is itself, and its own logit 16 w.
  for (int64_t i = 0; i < 16; ++i)
    model["embed_tokens.weight"][16 + i] = 1;
  model.fill("norm.weight", 124.0f / 16);
  CompiledModel compiled = model.compile(f64Options);
  auto sequence = compiled.sequence();
  Tensor prompt = compiled.prefill(*sequence, {1, 1});
  Tensor step = compiled.prefill(*sequence, {1});
  double want = 30 * std::tanh(124 / (30 * std::sqrt(1 + 1e-6 / 16)));
  EXPECT_NEAR(want, 29.98, 0.02);
  for (double got : {prompt.row(0)[1], prompt.row(1)[1], step.row(0)[1]})
    EXPECT_NEAR(got, want, 1e-12);
}

TEST(NumericsCases, ANormOfWeightZeroGivesZero) {
  SyntheticModel model("sf");
  Ids ids = someIds(12);
  model.fill("norm.weight", 0);
  CompiledModel compiled = model.compile(f64Options);
  auto sequence = compiled.sequence();
  for (double logit : compiled.prefill(*sequence, ids).data)
    EXPECT_EQ(logit, 0);
}

/// Scores are q · k with no 1/√D: twice the norm weights of queries is twice the scores.
TEST(NumericsCases, ScoresAreNotScaled) {
  SyntheticModel model("f");
  // Two tokens; with values known, the weight of key 0 for query 1 is a logistic function of the
  // difference of the scores.
  Ids ids = {7, 12};
  model.fill("layers.0.self_attn.q_norm.weight", 0.25f);
  model.fill("layers.0.self_attn.k_norm.weight", 0.5f);
  CompiledModel compiled =
      model.compile({.dtype = ScalarType::F64, .maxChunk = 64, .fusion = false});
  ReferenceFile nodes = nodesOf(compiled, ids);
  Tensor q = nodes.tensor("sub.2.layer.0.q_rope"), k = nodes.tensor("sub.2.layer.0.k_rope");
  Tensor v = nodes.tensor("sub.2.layer.0.v_norm"), out = nodes.tensor("sub.2.layer.0.attn_out");
  for (int64_t head = 0; head < 2; ++head) {
    double score[2] = {0, 0};
    for (int64_t d = 0; d < 16; ++d)
      for (int64_t key = 0; key < 2; ++key)
        score[key] += q.data[(2 + head) * 16 + d] * k.data[key * 16 + d];
    double first = 1 / (1 + std::exp(score[1] - score[0]));
    for (int64_t d = 0; d < 16; ++d)
      EXPECT_NEAR(out.data[(2 + head) * 16 + d], first * v.data[d] + (1 - first) * v.data[16 + d],
                  1e-13);
  }
}

} // namespace
