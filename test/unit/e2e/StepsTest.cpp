// How a prompt is cut into steps, what else runs beside it, and what dead memory holds: none of it
// may show in the results.
#include "SyntheticModel.h"

#include <map>

using namespace gemma;
using namespace gemma::test;

namespace {

class CompiledSteps : public testing::TestWithParam<const char *> {
protected:
  ReferenceData data = ReferenceData::open(GetParam());

  /// Ids across the ring's wrap: 4 windows and some.
  Ids longPrompt() {
    Ids prompt = data.reference.ids("prompt.100.tokens");
    Ids ids;
    int64_t wanted = 4 * data.checkpoint.config().sliding.window + 3;
    while (int64_t(ids.size()) < wanted)
      ids.push_back(prompt[(ids.size() * 7 + ids.size() / 100) % prompt.size()]);
    return ids;
  }
};

TEST_P(CompiledSteps, ChunksEqualTheWhole) {
  CompiledModel compiled = CompiledModel::make(
      data.checkpoint, {.dtype = ScalarType::F64, .maxContext = 256, .maxChunk = 96});
  Ids ids = longPrompt();
  auto whole = compiled.sequence();
  Tensor expected = compiled.prefill(*whole, ids);
  std::vector<std::pair<Tensor, Tensor>> caches;
  for (size_t cache = 0; cache < compiled.model->program().caches.size(); ++cache)
    caches.push_back(compiled.cached(*whole, cache));
  whole.reset();
  for (int64_t chunk : {1, 7, 16, 64}) {
    auto sequence = compiled.sequence();
    Tensor logits = compiled.prefill(*sequence, ids, chunk);
    EXPECT_LE(distance(logits, expected), 1e-12) << "chunks of " << chunk;
    for (size_t cache = 0; cache < caches.size(); ++cache) {
      auto [k, v] = compiled.cached(*sequence, cache);
      EXPECT_LE(distance(k, caches[cache].first), 1e-12) << "keys of layer " << cache;
      EXPECT_LE(distance(v, caches[cache].second), 1e-12) << "values of layer " << cache;
    }
  }
}

TEST_P(CompiledSteps, BatchMatesDoNotShow) {
  // 12 sequences: more than decode_few takes, so that every variant runs.
  CompiledModel compiled = CompiledModel::make(
      data.checkpoint,
      {.dtype = ScalarType::F64, .maxContext = 128, .maxBatch = 12, .maxChunk = 256});
  int64_t vocab = data.checkpoint.config().vocab;
  Ids ids = longPrompt();
  // Row r: a prompt of 1 + 5 r tokens, then two single tokens.
  std::vector<Ids> prompts;
  for (int64_t r = 0; r < 12; ++r)
    prompts.push_back(Ids(ids.begin() + r, ids.begin() + 2 * r + r % 3 + 1));
  auto lastLogits = [&](int64_t row) {
    Tensor logits({1, vocab});
    compiled.context->output("logits")->copyRow(row, logits.row(0));
    return logits;
  };

  std::vector<std::vector<Tensor>> alone(prompts.size());
  for (size_t r = 0; r < prompts.size(); ++r) {
    auto sequence = compiled.sequence();
    for (const Ids &tokens : {prompts[r], Ids{ids[r + 1]}, Ids{ids[r + 2]}}) {
      StepRow row{sequence.get(), tokens, LogitsWanted::Last};
      ASSERT_TRUE(compiled.context->step({&row, 1}));
      alone[r].push_back(lastLogits(0));
    }
  }

  std::vector<std::unique_ptr<Sequence>> sequences;
  for (size_t r = 0; r < prompts.size(); ++r)
    sequences.push_back(compiled.sequence());
  for (int64_t step = 0; step < 3; ++step) {
    std::vector<StepRow> rows;
    std::vector<Ids> tokens;
    for (size_t r = 0; r < prompts.size(); ++r)
      tokens.push_back(step == 0 ? prompts[r] : Ids{ids[r + step]});
    for (size_t r = 0; r < prompts.size(); ++r)
      rows.push_back({sequences[r].get(), tokens[r], LogitsWanted::Last});
    auto result = compiled.context->step(rows);
    ASSERT_TRUE(result) << result.error().message;
    for (size_t r = 0; r < prompts.size(); ++r)
      EXPECT_LE(distance(lastLogits(result->firstLogitRow[r]), alone[r][step]), 1e-12)
          << "row " << r << " step " << step;
  }
}

TEST_P(CompiledSteps, PlaceInAMixedBatchDoesNotShow) {
  // Rows with one new token and a row with many share every launch; who comes first, and whether
  // there are others, changes not one bit of a row.
  CompiledModel compiled = CompiledModel::make(
      data.checkpoint,
      {.dtype = ScalarType::BF16, .maxContext = 128, .maxBatch = 4, .maxChunk = 64});
  int64_t vocab = data.checkpoint.config().vocab;
  Ids ids = longPrompt();
  auto cut = [&](int64_t first, int64_t count) {
    Ids part;
    for (int64_t i = 0; i < count; ++i)
      part.push_back(ids[size_t(first + i) % ids.size()]);
    return part;
  };
  // What row r has already, and what it brings: one token, but for the last row.
  std::vector<Ids> before, brought;
  for (int64_t r = 0; r < 4; ++r) {
    before.push_back(cut(r, 3 + 17 * r));
    brought.push_back(cut(7 * r, r == 3 ? 29 : 1));
  }
  auto run = [&](const std::vector<size_t> &order) {
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<StepRow> rows;
    for (size_t r : order) {
      sequences.push_back(compiled.sequence());
      compiled.prefill(*sequences.back(), before[r]);
    }
    for (size_t i = 0; i < order.size(); ++i)
      rows.push_back({sequences[i].get(), brought[order[i]], LogitsWanted::Last});
    auto result = compiled.context->step(rows);
    EXPECT_TRUE(result) << result.error().message;
    EXPECT_EQ(compiled.model->program().variants[result->variant].name, "prefill");
    std::map<size_t, std::vector<double>> logits;
    for (size_t i = 0; i < order.size(); ++i) {
      logits[order[i]].resize(size_t(vocab));
      compiled.context->output("logits")->copyRow(result->firstLogitRow[i], logits[order[i]]);
    }
    return logits;
  };
  auto shortFirst = run({0, 1, 2, 3});
  EXPECT_TRUE(shortFirst == run({3, 2, 1, 0}));
  EXPECT_TRUE(shortFirst == run({2, 3, 0, 1}));
  EXPECT_TRUE(shortFirst[3] == run({3})[3]);
  EXPECT_TRUE(shortFirst[1] == run({1, 3})[1]);
}

TEST_P(CompiledSteps, DeadMemoryDoesNotShow) {
  for (auto [fusion, sharing] : {std::pair(true, true), {true, false}, {false, false}}) {
    CompiledModel compiled = CompiledModel::make(data.checkpoint, {.dtype = ScalarType::BF16,
                                                                   .maxContext = 256,
                                                                   .maxChunk = 32,
                                                                   .fusion = fusion,
                                                                   .kvSharing = sharing});
    Ids ids = longPrompt();
    auto run = [&](bool poison) {
      compiled.renew({.poison = poison});
      auto sequence = compiled.sequence();
      Tensor logits = compiled.prefill(*sequence, Ids(ids.begin(), ids.end() - 9), 32);
      Tensor tail = compiled.prefill(*sequence, Ids(ids.end() - 9, ids.end()), 1);
      logits.data.insert(logits.data.end(), tail.data.begin(), tail.data.end());
      return logits.data;
    };
    std::vector<double> clean = run(false), poisoned = run(true);
    EXPECT_TRUE(clean == poisoned)
        << (fusion ? "fused" : "unfused") << (sharing ? ", shared" : ""); // NaN is never equal
  }
}

TEST_P(CompiledSteps, InstructionSetsAgree) {
  Tensor expected = data.reference.tensor("prompt.100.logits");
  for (const std::string &isa : runnableIsas()) {
    CompiledModel compiled =
        CompiledModel::make(data.checkpoint, {.dtype = ScalarType::F64, .isas = {isa}});
    auto sequence = compiled.sequence();
    Tensor logits = compiled.prefill(*sequence, data.reference.ids("prompt.100.tokens"));
    EXPECT_LE(distance(logits, expected), 1e-12) << isa;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CompiledSteps,
                         testing::Values("narrow-12b", "narrow-31b", "text-only-f32"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// 16 query heads of one KV head are two blocks' work in decode. Both append what both read: alone
/// and among other rows a token gets the bits that it gets in a prefill, where one block has all.
TEST(SharedHeads, BlocksOfAKvHeadGiveThePrefillsBits) {
  SyntheticModel model("sff", 1, {{"num_attention_heads", 16}});
  Ids ids = someIds(60);
  Ids prompt(ids.begin(), ids.begin() + 50), rest(ids.begin() + 50, ids.end());
  Tensor want = model.expected(ids);
  struct Types {
    ScalarType type, kvType;
    double bound;
  };
  for (auto [type, kvType, bound] : {Types{ScalarType::F64, ScalarType::F64, 1e-12},
                                     {ScalarType::BF16, ScalarType::BF16, 0.1},
                                     {ScalarType::F32, ScalarType::I8, 0.1}})
    for (bool sharing : {true, false}) {
      SCOPED_TRACE(testing::Message() << name(kvType) << (sharing ? " shared" : " stored"));
      CompiledModel compiled = model.compile(
          {.dtype = type, .kvType = kvType, .maxBatch = 3, .maxChunk = 64, .kvSharing = sharing},
          {.poison = true});
      const Program &program = compiled.model->program();
      int64_t cut = 0;
      for (const Launch &launch : program.variants.front().launches)
        cut += launch.nodes.back().ends_with("attn.core") &&
               program.kernels[size_t(launch.kernel)].grid.evaluate({3, 3, 1, 60, 3}) == 3 * 2;
      EXPECT_EQ(cut, 3) << "each layer's attention has two blocks a sequence";

      auto whole = compiled.sequence();
      Tensor expected = compiled.prefill(*whole, ids);
      EXPECT_LE(distance(expected, want), bound);
      std::vector<std::pair<Tensor, Tensor>> caches; // before a step poisons what left the window
      for (size_t cache = 0; cache < 3; ++cache)
        caches.push_back(compiled.cached(*whole, cache));
      auto sequence = compiled.sequence(), beside = compiled.sequence();
      compiled.prefill(*sequence, prompt);
      compiled.prefill(*beside, Ids(ids.begin(), ids.begin() + 20));
      for (size_t i = 0; i < rest.size(); ++i) {
        Ids one = {rest[i]}, other = {ids[20 + i]};
        StepRow rows[] = {{beside.get(), other, LogitsWanted::Last},
                          {sequence.get(), one, LogitsWanted::Last}};
        auto result = compiled.context->step(std::span(rows).subspan(i % 2)); // alone, and not
        ASSERT_TRUE(result) << result.error().message;
        Tensor got({1, SyntheticModel::vocab});
        compiled.context->output("logits")->copyRow(result->logitRows - 1, got.row(0));
        EXPECT_TRUE(got.data == rowRange(expected, 50 + int64_t(i), 51 + int64_t(i)).data)
            << "token " << 50 + i;
      }
      for (size_t cache = 0; cache < 3; ++cache) {
        auto [k, v] = compiled.cached(*sequence, cache);
        EXPECT_TRUE(k.data == caches[cache].first.data && v.data == caches[cache].second.data)
            << "caches of layer " << cache;
      }
    }
}

} // namespace
