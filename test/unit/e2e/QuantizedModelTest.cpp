// Whole models with int8 and int4 weights: how far they are from bf16's, and that a token's result
// does not depend on what it is computed with.
#include "CompiledModel.h"

#include <cmath>

using namespace gemma;
using namespace gemma::test;

namespace {

struct Case {
  const char *name;
  ScalarType weights;
  ScalarType codes;
  double perplexity; ///< most that it may be above bf16's, as a share
  ScalarType caches = ScalarType::BF16;
};

compiler::CompileOptions optionsOf(const Case &c) {
  compiler::CompileOptions options;
  options.dtype = ScalarType::BF16;
  options.weightType = c.weights;
  if (c.weights != ScalarType::BF16)
    options.codeType = c.codes;
  options.kvType = c.caches;
  return options;
}

class QuantizedModel : public testing::TestWithParam<Case> {
protected:
  ReferenceData data = ReferenceData::open("examples/kjv-mini");
};

/// exp of the mean negative log-likelihood over the held-out chapters.
double perplexity(ReferenceData &data, CompiledModel &compiled) {
  Ids tokens = data.reference.ids("heldout.tokens"),
      lengths = data.reference.ids("heldout.lengths");
  double sum = 0, count = 0;
  size_t at = 0;
  for (int64_t length : lengths) {
    Ids text(tokens.begin() + int64_t(at), tokens.begin() + int64_t(at) + length);
    at += text.size();
    auto sequence = compiled.sequence();
    Tensor logits = compiled.prefill(*sequence, text);
    for (size_t t = 1; t < text.size(); ++t) {
      auto row = logits.row(int64_t(t) - 1);
      double largest = *std::max_element(row.begin(), row.end()), total = 0;
      for (double logit : row)
        total += std::exp(logit - largest);
      sum += largest + std::log(total) - row[size_t(text[t])];
    }
    count += double(text.size() - 1);
  }
  return std::exp(sum / count);
}

TEST_P(QuantizedModel, PerplexityIsNearThatOfBf16) {
  constexpr double ofBf16 = 28.2222; // README.md
  CompiledModel compiled = CompiledModel::make(data.checkpoint, optionsOf(GetParam()));
  double got = perplexity(data, compiled);
  RecordProperty("perplexity", std::to_string(got));
  EXPECT_LE(got / ofBf16 - 1, GetParam().perplexity) << got;
  EXPECT_GE(got / ofBf16 - 1, -0.01) << got;
}

TEST_P(QuantizedModel, TokensAloneAreTokensInAChunk) {
  ReferenceData narrow = ReferenceData::open("narrow-12b");
  compiler::CompileOptions options = optionsOf(GetParam());
  options.maxContext = 96;
  options.maxChunk = 40;
  CompiledModel compiled = CompiledModel::make(narrow.checkpoint, options);
  Ids ids;
  for (int i = 0; i < 61; ++i)
    ids.push_back((i * 7919 + i / 3) % int(narrow.checkpoint.config().vocab));
  std::vector<Tensor> logits;
  for (int64_t chunk : {0, 7, 1}) {
    auto sequence = compiled.sequence();
    logits.push_back(compiled.prefill(*sequence, ids, chunk));
  }
  EXPECT_EQ(distance(logits[1], logits[0]), 0);
  EXPECT_EQ(distance(logits[2], logits[0]), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Types, QuantizedModel,
    testing::Values(Case{"Int8", ScalarType::I8, ScalarType::I8, 0.002},
                    Case{"Int8By16", ScalarType::I8, ScalarType::I16, 0.002},
                    Case{"Int4", ScalarType::I4, ScalarType::I8, 0.015},
                    Case{"Int4By16", ScalarType::I4, ScalarType::I16, 0.015},
                    Case{"Int8Caches", ScalarType::BF16, ScalarType::I8, 0.002, ScalarType::I8},
                    Case{"Int4Int8Caches", ScalarType::I4, ScalarType::I8, 0.015, ScalarType::I8}),
    [](const auto &info) { return std::string(info.param.name); });

/// Every instruction set computes the same sums of integers: what differs is whether products and
/// sums of floats are fused.
TEST(QuantizedIsas, AgreeToRounding) {
  ReferenceData data = ReferenceData::open("narrow-12b");
  Ids ids = {1, 5, 9, 2, 77, 30, 4, 18};
  for (ScalarType type : {ScalarType::I8, ScalarType::I4}) {
    std::optional<Tensor> first;
    for (const std::string &isa : runnableIsas()) {
      SCOPED_TRACE(isa);
      compiler::CompileOptions options = optionsOf({"", type, ScalarType::I8, 0});
      options.isas = {isa};
      options.maxContext = 32;
      CompiledModel compiled = CompiledModel::make(data.checkpoint, options);
      auto sequence = compiled.sequence();
      Tensor logits = compiled.prefill(*sequence, ids);
      if (first)
        // A difference of the last bit may put an activation on the other side of a code.
        EXPECT_LE(distance(logits, *first), 0.02);
      else
        first = std::move(logits);
    }
  }
}

} // namespace
