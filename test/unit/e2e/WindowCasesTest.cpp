// Window, mask and cache faults that users of other systems reported, as acts on compiled models
// (docs/Cases.md has the sources).
#include "SyntheticModel.h"

#include "runtime/abi/ProgramJson.h"

using namespace gemma;
using namespace gemma::test;

namespace {

constexpr int64_t window = SyntheticModel::window;
const compiler::CompileOptions f64Options = {
    .dtype = ScalarType::F64, .maxBatch = 3, .maxChunk = 64};

/// Largest difference of one row of logits.
double rowDifference(const Tensor &a, const Tensor &b, int64_t row) {
  double largest = 0;
  for (int64_t v = 0; v < a.width(); ++v)
    largest = std::max(largest, std::fabs(a.row(row)[v] - b.row(row)[v]));
  return largest;
}

/// One layer whose values are zero except for token 0's: what attention gives a query shows whether
/// it sees token 0.
class OneVisibleValue : public testing::TestWithParam<const char *> {
protected:
  SyntheticModel model{GetParam()};
  void SetUp() override {
    // Coordinate 0 of the embedding is set for token 0 alone, and only values read it. A head that
    // is not tied to it would be simpler; here only logit differences are looked at.
    std::vector<float> &embedding = model["embed_tokens.weight"];
    for (int64_t token = 0; token < SyntheticModel::vocab; ++token)
      embedding[token * SyntheticModel::hidden] = token == 0 ? 1 : 0;
    std::vector<float> &values = model["layers.0.self_attn." + valueProjection() + ".weight"];
    for (size_t i = 0; i < values.size(); ++i)
      if (i % SyntheticModel::hidden != 0)
        values[i] = 0;
  }
  std::string valueProjection() const {
    return std::string(GetParam()) == "s" ? "v_proj" : "k_proj";
  }
  /// What token 0 at position 0 changes in the logits of each position of a prompt.
  std::vector<double> influence(int64_t length) {
    CompiledModel compiled = model.compile(f64Options);
    Ids with = someIds(length), without = with;
    with[0] = 0;
    auto first = compiled.sequence(), second = compiled.sequence();
    Tensor a = compiled.prefill(*first, with), b = compiled.prefill(*second, without);
    std::vector<double> differences;
    differences.reserve(size_t(length));
    for (int64_t i = 0; i < length; ++i)
      differences.push_back(rowDifference(a, b, i));
    return differences;
  }
};

TEST_P(OneVisibleValue, IsSeenAsFarAsTheWindow) {
  bool sliding = std::string(GetParam()) == "s";
  std::vector<double> differences = influence(40);
  for (int64_t i = 1; i < 40; ++i)
    if (!sliding || i < window)
      EXPECT_GT(differences[i], 1e-6) << "query " << i << " must see key 0";
    else
      EXPECT_EQ(differences[i], 0) << "query " << i << " must not see key 0";
}

// "f": a model of full attention alone windows nothing, whatever sliding_window says.
INSTANTIATE_TEST_SUITE_P(Layers, OneVisibleValue, testing::Values("s", "f"), [](const auto &info) {
  return std::string(info.param) == "s" ? "Sliding" : "Full";
});

TEST(WindowCases, FullAttentionAloneEqualsTheReference) {
  SyntheticModel model("ff");
  CompiledModel compiled = model.compile(f64Options);
  auto sequence = compiled.sequence();
  EXPECT_LE(distance(compiled.prefill(*sequence, someIds(40)), model.expected(someIds(40))), 1e-12);
}

/// Prompts whose end is near the window's, then decoding across it.
TEST(WindowCases, PromptsNearTheWindowInEveryType) {
  SyntheticModel model("ssf");
  struct Type {
    ScalarType type;
    double bound;
  };
  for (auto [type, bound] :
       {Type{ScalarType::F64, 1e-12}, {ScalarType::F32, 1e-4}, {ScalarType::BF16, 0.1}}) {
    CompiledModel compiled = model.compile({.dtype = type, .maxBatch = 3, .maxChunk = 64});
    for (int64_t length : {int64_t(1), int64_t(3), window - 2, window - 1, window, window + 1,
                           2 * window + 3, 3 * window}) {
      int64_t decoded = length == 3 ? window + 5 : 6;
      Ids ids = someIds(length + decoded);
      Tensor want = model.expected(ids);
      auto sequence = compiled.sequence();
      Tensor prompt = compiled.prefill(*sequence, Ids(ids.begin(), ids.begin() + length));
      EXPECT_LE(distance(prompt, rowRange(want, 0, length)), bound)
          << "prompt of " << length << " in " << name(type);
      Tensor steps = compiled.prefill(*sequence, Ids(ids.begin() + length, ids.end()), 1);
      EXPECT_LE(distance(steps, rowRange(want, length, length + decoded)), bound)
          << "decoding after " << length << " in " << name(type);
    }
  }
}

TEST(WindowCases, ManifestKeepsTheWindow) {
  auto config = readModelConfig(sourcePath("test/data/configs/gemma-4-12B/config.json"));
  ASSERT_TRUE(config);
  auto program = compiler::planModel(*config, {.dtype = ScalarType::BF16});
  ASSERT_TRUE(program) << program.error().message;
  Program read = *program;
  for (int turn = 0; turn < 3; ++turn) {
    auto again = programFromJson(programToJson(read), "manifest");
    ASSERT_TRUE(again) << again.error().message;
    read = std::move(*again);
    EXPECT_EQ(read.config.sliding.window, 1024);
    for (const CachePlan &cache : read.caches)
      EXPECT_EQ(cache.window, cache.ring ? 1024 : 0);
  }
  EXPECT_TRUE(read == *program);
}

/// A second turn that keeps the first tokens and replaces the rest.
TEST(WindowCases, ATurnThatSharesAPrefixEqualsAColdRun) {
  SyntheticModel model("ssf");
  CompiledModel compiled = model.compile({.dtype = ScalarType::F64, .maxBatch = 3, .maxChunk = 16});
  Ids first = someIds(window + 20), second = someIds(window + 20, 11);
  std::copy_n(first.begin(), 5, second.begin());
  auto cold = compiled.sequence();
  Tensor want = compiled.prefill(*cold, second);

  auto sequence = compiled.sequence();
  compiled.prefill(*sequence, first);
  // The ring has lost what token 5 sees: an error, and nothing has changed.
  Status tooFar = sequence->truncate(5);
  EXPECT_ERROR(tooFar, "cannot take back to 5 tokens");
  EXPECT_EQ(sequence->length(), window + 20);
  ASSERT_TRUE(sequence->truncate(0));
  Tensor got = compiled.prefill(*sequence, second);
  EXPECT_TRUE(got.data == want.data) << "a cold prefill in a used slot";

  // As far as a chunk it is exact.
  ASSERT_TRUE(sequence->truncate(window + 20 - 16));
  Ids tail(second.end() - 16, second.end());
  Tensor again = compiled.prefill(*sequence, tail);
  EXPECT_LE(distance(again, rowRange(want, window + 20 - 16, window + 20)), 1e-12);
}

/// What one sequence leaves in pages and slots does not show in the next.
TEST(WindowCases, ASecretPromptDoesNotShowInTheNext) {
  SyntheticModel model("ssf");
  CompiledModel compiled = model.compile(f64Options);
  Ids secret = someIds(3 * window), next = someIds(20, 17);
  std::copy_n(secret.begin(), 2, next.begin());
  auto alone = compiled.sequence();
  Tensor want = compiled.prefill(*alone, next);
  alone.reset();
  compiled.renew();
  auto first = compiled.sequence();
  compiled.prefill(*first, secret);
  first.reset();
  auto second = compiled.sequence();
  EXPECT_TRUE(compiled.prefill(*second, next).data == want.data);
}

TEST(WindowCases, TheSameRequestFourTimes) {
  SyntheticModel model("ssf");
  CompiledModel compiled = model.compile(f64Options);
  std::vector<double> first;
  for (int time = 0; time < 4; ++time) {
    auto sequence = compiled.sequence();
    std::vector<double> logits = compiled.prefill(*sequence, someIds(2 * window)).data;
    if (time == 0)
      first = logits;
    EXPECT_TRUE(logits == first) << "time " << time;
  }
}

/// The smallest context there can be, two sequences in it, a third refused.
TEST(WindowCases, TwoSequencesFillTheSmallestContext) {
  SyntheticModel model("ssf");
  CompiledModel compiled = model.compile(f64Options, {.context = 16, .batch = 2});
  Ids ids = someIds(16);
  Tensor want = model.expected(ids);
  auto a = compiled.sequence(), b = compiled.sequence();
  EXPECT_FALSE(compiled.context->newSequence());
  EXPECT_LE(distance(compiled.prefill(*a, ids), want), 1e-12);
  EXPECT_LE(distance(compiled.prefill(*b, ids, 5), want), 1e-12);
  Ids one = {1};
  StepRow row{a.get(), one, LogitsWanted::Last};
  EXPECT_ERROR(compiled.context->step({&row, 1}), "context");
  // And goes on after the refusal.
  ASSERT_TRUE(b->truncate(10));
  EXPECT_LE(
      distance(compiled.prefill(*b, Ids(ids.begin() + 10, ids.end())), rowRange(want, 10, 16)),
      1e-12);
}

TEST(WindowCases, CachesAreAllocatedAsPlanned) {
  SyntheticModel model("sfs");
  for (int64_t context : {16, 40, 128}) {
    CompiledModel compiled = model.compile(f64Options, {.context = context, .batch = 2});
    uint64_t rings = 0, pages = 0;
    for (size_t cache = 0; cache < 3; ++cache)
      for (const char *lane : {"k", "v"})
        (cache == 1 ? pages : rings) += compiled.context->cacheLane(cache, lane).size();
    EXPECT_EQ(compiled.context->plan().slidingCache, rings) << context;
    EXPECT_EQ(compiled.context->plan().globalCache, pages) << context;
    // In f64, V of 16 lanes a token, whose K follows, in pages of 16 positions.
    EXPECT_EQ(pages, 2u * uint64_t((context + 15) / 16 * 16) * 16 * 8);
  }
}

/// Rows much longer and shorter than the window in one step, with poisoned memory.
TEST(WindowCases, RowsOfThreeAndTwentyAreFiniteAndTheirOwn) {
  SyntheticModel model("ssf");
  CompiledModel compiled = model.compile(f64Options, {.poison = true});
  std::vector<Ids> prompts = {someIds(3), someIds(20, 9)};
  std::vector<Tensor> alone;
  for (const Ids &prompt : prompts) {
    auto sequence = compiled.sequence();
    alone.push_back(compiled.prefill(*sequence, prompt));
    EXPECT_LE(distance(alone.back(), model.expected(prompt)), 1e-12);
  }
  auto a = compiled.sequence(), b = compiled.sequence();
  std::vector<StepRow> rows = {{a.get(), prompts[0], LogitsWanted::All},
                               {b.get(), prompts[1], LogitsWanted::All}};
  auto result = compiled.context->step(rows);
  ASSERT_TRUE(result) << result.error().message;
  auto view = compiled.context->output("logits");
  ASSERT_TRUE(view);
  for (size_t r = 0; r < 2; ++r) {
    Tensor got({int64_t(prompts[r].size()), SyntheticModel::vocab});
    for (int64_t t = 0; t < got.dim(0); ++t)
      view->copyRow(result->firstLogitRow[r] + t, got.row(t));
    EXPECT_LE(distance(got, alone[r]), 1e-12) << "row " << r; // infinite if not finite
  }
}

} // namespace
