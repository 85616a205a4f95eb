// Compiled models against the official implementation's float64 logits.
#include "CompiledModel.h"

#include <algorithm>

using namespace gemma;
using namespace gemma::test;

namespace {

struct Case {
  const char *model;
  double bf16Rms = 0; ///< bound of the bf16 logits' rms error
};

/// Greedy continuation of every greedy prompt. A step counts where the reference's margin is more
/// than twice the largest error allowed: `relative` times the largest logit, or `absolute`.
void checkGreedy(ReferenceData &data, CompiledModel &compiled, double relative, double absolute) {
  size_t compared = 0;
  for (int64_t n = 0;; ++n) {
    std::string name = "greedy." + std::to_string(n);
    if (!data.reference.tensors().find(name + ".prompt"))
      break;
    Ids prompt = data.reference.ids(name + ".prompt");
    Ids tokens = data.reference.ids(name + ".tokens");
    Tensor margins = data.reference.tensor(name + ".margin");
    auto sequence = compiled.sequence();
    Tensor logits = compiled.prefill(*sequence, prompt);
    auto row = logits.row(logits.dim(0) - 1);
    std::vector<double> last(row.begin(), row.end());
    for (size_t step = 0; step < tokens.size(); ++step) {
      double largest = 0;
      for (double logit : last)
        largest = std::max(largest, std::fabs(logit));
      if (margins.data[step] > 2 * std::max(relative * largest, absolute)) {
        auto best = std::max_element(last.begin(), last.end()) - last.begin();
        ASSERT_EQ(best, tokens[step]) << name << " step " << step;
        ++compared;
      }
      last = compiled.prefill(*sequence, {tokens[step]}).data;
    }
  }
  EXPECT_GT(compared, 60u) << "steps that the margins decide";
}

class CompiledLogits : public testing::TestWithParam<Case> {
protected:
  ReferenceData data = ReferenceData::open(GetParam().model);

  /// The largest distance over all prompts.
  double worst(CompiledModel &compiled) {
    double worst = 0;
    for (int64_t length : data.reference.promptLengths()) {
      std::string prompt = "prompt." + std::to_string(length);
      auto sequence = compiled.sequence();
      Tensor logits = compiled.prefill(*sequence, data.reference.ids(prompt + ".tokens"));
      worst = std::max(worst, distance(logits, data.reference.tensor(prompt + ".logits")));
    }
    return worst;
  }
};

TEST_P(CompiledLogits, F64Unfused) {
  CompiledModel compiled =
      CompiledModel::make(data.checkpoint, {.dtype = ScalarType::F64, .fusion = false});
  EXPECT_LE(worst(compiled), 1e-12);
}

TEST_P(CompiledLogits, F64FusedAndGreedy) {
  CompiledModel compiled = CompiledModel::make(data.checkpoint, {.dtype = ScalarType::F64});
  EXPECT_LE(worst(compiled), 1e-12);
  checkGreedy(data, compiled, 1e-12, 0);
}

TEST_P(CompiledLogits, F32AndGreedy) {
  CompiledModel compiled = CompiledModel::make(data.checkpoint, {.dtype = ScalarType::F32});
  EXPECT_LE(worst(compiled), 1e-4);
  checkGreedy(data, compiled, 1e-4, 0);
}

class CompiledBf16Logits : public CompiledLogits {};

TEST_P(CompiledBf16Logits, RmsError) {
  CompiledModel compiled = CompiledModel::make(data.checkpoint, {.dtype = ScalarType::BF16});
  for (int64_t length : data.reference.promptLengths()) {
    std::string prompt = "prompt." + std::to_string(length);
    auto sequence = compiled.sequence();
    Tensor logits = compiled.prefill(*sequence, data.reference.ids(prompt + ".tokens"));
    EXPECT_LE(rmsDifference(logits, data.reference.tensor(prompt + ".logits")), GetParam().bf16Rms)
        << prompt;
  }
}

std::string caseName(const testing::TestParamInfo<Case> &info) {
  std::string name = info.param.model;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, CompiledLogits,
                         testing::Values(Case{"narrow-12b"}, Case{"narrow-31b"},
                                         Case{"text-only-f32"}, Case{"narrow-12b-tail"}),
                         caseName);
INSTANTIATE_TEST_SUITE_P(Models, CompiledBf16Logits,
                         testing::Values(Case{"narrow-12b", 0.05}, Case{"narrow-31b", 0.035}),
                         caseName);

/// Summed negative log-likelihood of every token but the first.
double negativeLogLikelihood(const Tensor &logits, const Ids &tokens) {
  double sum = 0;
  for (size_t t = 1; t < tokens.size(); ++t) {
    auto row = logits.row(int64_t(t) - 1);
    double largest = *std::max_element(row.begin(), row.end()), total = 0;
    for (double logit : row)
      total += std::exp(logit - largest);
    sum += largest + std::log(total) - row[tokens[t]];
  }
  return sum;
}

/// Perplexity over the held-out chapters, ours and the reference's in f64.
std::pair<double, double> perplexity(ReferenceData &data, CompiledModel &compiled) {
  Ids tokens = data.reference.ids("heldout.tokens"),
      lengths = data.reference.ids("heldout.lengths");
  Tensor expected = data.reference.tensor("heldout.nll.f64");
  double ours = 0, theirs = 0, count = 0;
  size_t at = 0;
  for (size_t chapter = 0; chapter < lengths.size(); ++chapter) {
    Ids text(tokens.begin() + at, tokens.begin() + at + lengths[chapter]);
    at += text.size();
    auto sequence = compiled.sequence();
    ours += negativeLogLikelihood(compiled.prefill(*sequence, text), text);
    theirs += expected.data[chapter];
    count += double(text.size() - 1);
  }
  return {std::exp(ours / count), std::exp(theirs / count)};
}

TEST(CompiledKjvMini, F64) {
  ReferenceData data = ReferenceData::open("examples/kjv-mini");
  CompiledModel compiled = CompiledModel::make(data.checkpoint, {.dtype = ScalarType::F64});
  auto sequence = compiled.sequence();
  Tensor logits = compiled.prefill(*sequence, data.reference.ids("logits100.tokens"));
  EXPECT_LE(distance(logits, data.reference.tensor("logits100.f64")), 1e-12);
  sequence.reset();
  auto [ours, theirs] = perplexity(data, compiled);
  EXPECT_NEAR(ours / theirs, 1, 1e-9);
}

TEST(CompiledKjvMini, Bf16) {
  ReferenceData data = ReferenceData::open("examples/kjv-mini");
  CompiledModel compiled = CompiledModel::make(data.checkpoint, {.dtype = ScalarType::BF16});
  {
    auto sequence = compiled.sequence();
    Tensor logits = compiled.prefill(*sequence, data.reference.ids("logits100.tokens"));
    EXPECT_LE(rmsDifference(logits, data.reference.tensor("logits100.f64")), 0.005);
  }
  checkGreedy(data, compiled, 0, 6 * 0.005);
  auto [ours, theirs] = perplexity(data, compiled);
  EXPECT_NEAR(ours / theirs, 1, 1e-3);
}

} // namespace
