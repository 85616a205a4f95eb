// The engine on a toy model whose kernels are in kernels/CacheKernels.c, compared with plain loops.
#include "runtime/engine/Context.h"
#include "test/unit/ToyModel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>

using namespace gemma;

namespace {

using namespace toy;

class EngineTest : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    Expected<Checkpoint> checkpoint = Checkpoint::open(checkpointFolder());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    Artifact artifact = toyArtifact(checkpoint->config());
    ModelOptions options;
    Expected<std::shared_ptr<const Model>> loaded =
        Model::load(std::move(artifact), *checkpoint, options);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    model = *loaded;
  }
  static void TearDownTestSuite() { model.reset(); }

  std::unique_ptr<Context> context(unsigned threads = 2, bool poison = false) {
    ContextOptions options;
    options.threads = threads;
    options.poison = poison;
    Expected<std::unique_ptr<Context>> made = Context::create(model, options);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return made ? std::move(*made) : nullptr;
  }

  static std::vector<double> reference(std::span<const int32_t> tokens, int64_t position) {
    return toyLogits(reinterpret_cast<const double *>(model->weight(0)), tokens, position);
  }

  static std::vector<double> logitRow(const Context &context, int64_t row) {
    std::vector<double> out(vocab);
    auto view = context.output("logits");
    EXPECT_TRUE(view);
    if (view)
      view->copyRow(row, out);
    return out;
  }

  static void expectClose(const std::vector<double> &got, const std::vector<double> &want,
                          const std::string &what) {
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-11 * (1 + std::abs(want[i]))) << what << " entry " << i;
  }

  static std::vector<int32_t> randomTokens(size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<int32_t> tokens(count);
    for (int32_t &token : tokens)
      token = int32_t(random() % vocab);
    return tokens;
  }

  static std::shared_ptr<const Model> model;
};

std::shared_ptr<const Model> EngineTest::model;

TEST_F(EngineTest, ChunksOfAnySizeGiveTheSameLogits) {
  std::vector<int32_t> tokens = randomTokens(75, 1);
  for (unsigned threads : {1u, 3u})
    for (int64_t chunk : {1, 3, 8, 0}) {
      std::unique_ptr<Context> context = this->context(threads);
      std::unique_ptr<Sequence> sequence = std::move(*context->newSequence());
      int64_t seen = 0;
      Status status = context->extend(
          *sequence, tokens, LogitsWanted::All,
          [&](int64_t first, const StepResult &result) -> Status {
            EXPECT_EQ(first, seen);
            for (int64_t r = 0; r < result.logitRows; ++r)
              expectClose(logitRow(*context, r), reference(tokens, first + r),
                          "position " + std::to_string(first + r));
            seen += result.logitRows;
            return {};
          },
          chunk);
      ASSERT_TRUE(status.ok()) << status.error().message;
      EXPECT_EQ(seen, 75);
      EXPECT_EQ(sequence->length(), 75);
    }
}

TEST_F(EngineTest, RaggedBatchEqualsEachRowAlone) {
  std::unique_ptr<Context> context = this->context();
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<std::vector<int32_t>> tokens;
  for (unsigned b = 0; b < 3; ++b) {
    sequences.push_back(std::move(*context->newSequence()));
    tokens.push_back(randomTokens(60, 10 + b));
  }
  EXPECT_FALSE(context->newSequence().ok());
  std::vector<size_t> done(3, 0);
  std::mt19937 random(static_cast<uint32_t>(sequences.size()));
  for (int step = 0; step < 20; ++step) {
    std::vector<StepRow> rows;
    std::vector<size_t> who;
    for (size_t b = 0; b < 3; ++b) {
      size_t count = std::min<size_t>(random() % 3, 60 - done[b]);
      if (count == 0)
        continue;
      LogitsWanted wanted = LogitsWanted(random() % 3);
      rows.push_back({sequences[b].get(), std::span(tokens[b]).subspan(done[b], count), wanted});
      who.push_back(b);
    }
    if (rows.empty())
      continue;
    Expected<StepResult> result = context->step(rows);
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(result->variant, result->tokens == 1 ? 0u : 1u);
    for (size_t i = 0; i < rows.size(); ++i) {
      size_t b = who[i], count = rows[i].tokens.size();
      for (size_t j = 0; j < count; ++j) {
        bool wanted = rows[i].logits == LogitsWanted::All ||
                      (rows[i].logits == LogitsWanted::Last && j + 1 == count);
        if (!wanted)
          continue;
        int64_t row =
            result->firstLogitRow[i] + (rows[i].logits == LogitsWanted::All ? int64_t(j) : 0);
        expectClose(logitRow(*context, row), reference(tokens[b], int64_t(done[b] + j)), "row");
      }
      done[b] += count;
      EXPECT_EQ(sequences[b]->length(), int64_t(done[b]));
    }
  }
}

TEST_F(EngineTest, DeadPlacesMayHoldNaN) {
  std::vector<int32_t> tokens = randomTokens(70, 3), other = randomTokens(30, 4);
  std::unique_ptr<Context> context = this->context(2, true);
  std::unique_ptr<Sequence> first = std::move(*context->newSequence());
  std::unique_ptr<Sequence> second = std::move(*context->newSequence());
  for (size_t at = 0; at < 70; at += 7) {
    std::vector<StepRow> rows = {
        {first.get(), std::span(tokens).subspan(at, 7), LogitsWanted::Last}};
    if (at < 30)
      rows.push_back({second.get(), std::span(other).subspan(at / 7, 1), LogitsWanted::Last});
    ASSERT_TRUE(context->step(rows).ok());
    expectClose(logitRow(*context, 0), reference(tokens, int64_t(at) + 6), "first");
    if (at < 30)
      expectClose(logitRow(*context, 1), reference(other, int64_t(at / 7)), "second");
  }
  // The poison is there: the place after the last token of a paged cache is NaN.
  ASSERT_TRUE(context
                  ->step(std::vector<StepRow>{
                      {second.get(), std::span(other).subspan(5, 1), LogitsWanted::None}})
                  .ok());
  int64_t page = context->pageOf(*first, 69, false);
  const double *lane = reinterpret_cast<const double *>(context->cacheLane(1, "v").data());
  EXPECT_TRUE(std::isnan(lane[(page * 2 * 16 + 70 % 16) * 40]));
  EXPECT_FALSE(first->truncate(60).ok());
}

TEST_F(EngineTest, TakingBackTokens) {
  std::vector<int32_t> tokens = randomTokens(70, 6), other = randomTokens(70, 7);
  std::unique_ptr<Context> context = this->context();
  std::unique_ptr<Sequence> sequence = std::move(*context->newSequence());
  ASSERT_TRUE(context->extend(*sequence, std::span(tokens).first(53), LogitsWanted::None, {}).ok());
  EXPECT_FALSE(sequence->truncate(54).ok());
  EXPECT_FALSE(sequence->truncate(-1).ok());
  EXPECT_FALSE(sequence->truncate(44).ok()); // 9 of maxChunk = 8
  EXPECT_EQ(sequence->length(), 53);
  ASSERT_TRUE(sequence->truncate(45).ok());
  std::vector<int32_t> mixed(tokens.begin(), tokens.begin() + 45);
  mixed.insert(mixed.end(), other.begin(), other.begin() + 20);
  auto check = [&](std::span<const int32_t> all, size_t from) {
    Status status =
        context->extend(*sequence, all.subspan(from), LogitsWanted::All,
                        [&](int64_t first, const StepResult &r) -> Status {
                          for (int64_t i = 0; i < r.logitRows; ++i)
                            expectClose(logitRow(*context, i),
                                        reference(all, int64_t(from) + first + i), "taken back");
                          return {};
                        });
    ASSERT_TRUE(status.ok()) << status.error().message;
  };
  check(std::span(mixed).first(48), 45);
  // 48 tokens now, but 53 were written: 45 is as far back as it goes.
  EXPECT_FALSE(sequence->truncate(44).ok());
  ASSERT_TRUE(sequence->truncate(45).ok());
  check(mixed, 45);
  ASSERT_TRUE(sequence->truncate(0).ok());
  check(std::span(other).first(20), 0);
}

// Made-up tokens are cached values like others: steps read them, and they can be taken back.
TEST_F(EngineTest, MadeUpTokens) {
  std::vector<int32_t> tokens = randomTokens(5, 9);
  std::unique_ptr<Context> context = this->context();
  std::unique_ptr<Sequence> first = std::move(*context->newSequence());
  std::unique_ptr<Sequence> second = std::move(*context->newSequence());
  int64_t room = first->room();
  Status tooLong = first->makeUp(room + 1);
  ASSERT_FALSE(tooLong.ok());
  EXPECT_EQ(tooLong.error().message, "context full: expected at most " + std::to_string(room) +
                                         " made-up tokens, got " + std::to_string(room + 1));
  EXPECT_FALSE(first->makeUp(-1).ok());
  EXPECT_EQ(first->length(), 0);

  ASSERT_TRUE(first->makeUp(60).ok());
  EXPECT_EQ(first->length(), 60);
  EXPECT_FALSE(first->makeUp(70).ok()); // it is not empty
  std::set<double> seen;
  const auto *values = reinterpret_cast<const double *>(context->cacheLane(1, "v").data());
  for (int64_t position = 0; position < 60; ++position) {
    double value = values[(context->pageOf(*first, position, false) * 2 * 16 + position % 16) * 40];
    EXPECT_LE(std::abs(value), 1.0 / 32);
    seen.insert(value);
  }
  EXPECT_GT(seen.size(), 10U);

  auto step = [&](Sequence &sequence, size_t index) {
    EXPECT_TRUE(context
                    ->step(std::vector<StepRow>{
                        {&sequence, std::span(tokens).subspan(index, 1), LogitsWanted::Last}})
                    .ok());
    return logitRow(*context, 0);
  };
  std::vector<double> after60 = step(*first, 0);
  for (double logit : after60)
    ASSERT_TRUE(std::isfinite(logit));
  EXPECT_NE(after60, step(*second, 0)); // of an empty sequence: what is cached counts
  step(*first, 1);
  ASSERT_TRUE(first->truncate(60).ok());
  EXPECT_EQ(step(*first, 0), after60);
  ASSERT_TRUE(second->truncate(0).ok());
  ASSERT_TRUE(second->makeUp(60).ok());
  EXPECT_EQ(step(*second, 0), after60); // the same in every sequence

  std::unique_ptr<Context> poisoned = this->context(2, true);
  std::unique_ptr<Sequence> third = std::move(*poisoned->newSequence());
  EXPECT_FALSE(third->makeUp(10).ok());
}

TEST_F(EngineTest, RefusedStepsChangeNothing) {
  std::vector<int32_t> tokens = randomTokens(100, 8), bad = {1, 515}, negative = {-1};
  std::unique_ptr<Context> context = this->context();
  std::unique_ptr<Sequence> sequence = std::move(*context->newSequence());
  std::unique_ptr<Sequence> second = std::move(*context->newSequence());
  ASSERT_TRUE(context->extend(*sequence, std::span(tokens).first(95), LogitsWanted::None, {}).ok());
  std::vector<std::byte> before(context->cacheLane(1, "k").begin(),
                                context->cacheLane(1, "k").end());
  auto refused = [&](std::vector<StepRow> rows) {
    Expected<StepResult> result = context->step(rows);
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(sequence->length(), 95);
    EXPECT_EQ(second->length(), 0);
    return result.ok() ? "" : result.error().message;
  };
  auto has = [](const std::string &message, const char *part) {
    return message.find(part) != std::string::npos ? ::testing::AssertionSuccess()
                                                   : ::testing::AssertionFailure() << message;
  };
  std::span<const int32_t> all(tokens);
  EXPECT_TRUE(has(refused({}), "at least one row"));
  EXPECT_TRUE(has(refused({{nullptr, all.first(1)}}), "no sequence"));
  EXPECT_TRUE(has(refused({{sequence.get(), all.first(0)}}), "at least one token"));
  EXPECT_TRUE(has(refused({{sequence.get(), all.first(1)}, {sequence.get(), all.first(1)}}),
                  "same sequence"));
  EXPECT_TRUE(has(refused({{second.get(), all.first(9)}}), "at most 8 new tokens, got 9"));
  EXPECT_TRUE(has(refused({{second.get(), bad}}), "0 to 514, got 515"));
  EXPECT_TRUE(has(refused({{second.get(), negative}}), "got -1"));
  EXPECT_TRUE(
      has(refused({{second.get(), all.first(2)}, {sequence.get(), all.first(6)}}), "context full"));
  EXPECT_TRUE(has(refused({{sequence.get(), all.first(1)},
                           {second.get(), all.first(1)},
                           {second.get(), all.first(1)},
                           {second.get(), all.first(1)}}),
                  "at most 3 rows"));
  EXPECT_EQ(std::memcmp(before.data(), context->cacheLane(1, "k").data(), before.size()), 0);
  Status status = context->extend(*sequence, all.first(6), LogitsWanted::Last, {});
  EXPECT_TRUE(has(status.error().message, "context full"));
  EXPECT_EQ(sequence->length(), 95);
  // And the next request works.
  std::vector<StepRow> rows = {{sequence.get(), all.subspan(95), LogitsWanted::Last}};
  ASSERT_TRUE(context->step(rows).ok());
  expectClose(logitRow(*context, 0), reference(tokens, 99), "after refusals");
  EXPECT_EQ(sequence->room(), 0);
}

TEST_F(EngineTest, SlotsAndPagesComeBack) {
  std::unique_ptr<Context> context = this->context();
  for (int round = 0; round < 20; ++round) {
    std::vector<int32_t> tokens = randomTokens(100, unsigned(round));
    std::vector<std::unique_ptr<Sequence>> sequences;
    for (int b = 0; b < 3; ++b) {
      Expected<std::unique_ptr<Sequence>> sequence = context->newSequence();
      ASSERT_TRUE(sequence.ok());
      ASSERT_TRUE(context->extend(**sequence, tokens, LogitsWanted::Last, {}).ok());
      expectClose(logitRow(*context, 0), reference(tokens, 99), "round");
      sequences.push_back(std::move(*sequence));
    }
  }
}

TEST_F(EngineTest, MemoryIsExactlyThePlan) {
  Expected<MemoryPlan> plan = planMemory(model->program(), {48, 2, 3});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->slidingCache, 2u * (2 * 2) * (2 * 40 * 16 * 8));
  EXPECT_EQ(plan->globalCache, 2u * (2 * 3) * (2 * 40 * 16 * 8));
  EXPECT_EQ(plan->scratch, 3u * 640);
  EXPECT_EQ(plan->modelBytes(), model->bytes());
  EXPECT_FALSE(planMemory(model->program(), {101, 1, 1}).ok());
  EXPECT_FALSE(planMemory(model->program(), {1, 4, 1}).ok());
  Status refused = checkMemory(UINT64_MAX, *plan);
  ASSERT_FALSE(refused.ok());
  for (const char *part : {"not enough memory: expected 18446744073709551615 bytes free, got ",
                           "the plan is\n", "a smaller --context takes less"})
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  EXPECT_TRUE(checkMemory(0, *plan).ok());
  // A smaller context holds its sequences to it.
  ContextOptions options;
  options.context = 20;
  options.batch = 1;
  options.threads = 1;
  std::unique_ptr<Context> small = std::move(*Context::create(model, options));
  std::unique_ptr<Sequence> sequence = std::move(*small->newSequence());
  std::vector<int32_t> tokens = randomTokens(21, 1);
  EXPECT_FALSE(small->extend(*sequence, tokens, LogitsWanted::Last, {}).ok());
  ASSERT_TRUE(small->extend(*sequence, std::span(tokens).first(20), LogitsWanted::Last, {}).ok());
  expectClose(logitRow(*small, 0), reference(tokens, 19), "small");
}

TEST_F(EngineTest, AllOfThePlanIsResidentBeforeTheFirstStep) {
  Expected<Checkpoint> checkpoint = Checkpoint::open(checkpointFolder());
  ASSERT_TRUE(checkpoint.ok());
  Artifact artifact = toyArtifact(checkpoint->config());
  artifact.program.limits.maxContext = 65536;
  Expected<std::shared_ptr<const Model>> loaded =
      Model::load(std::move(artifact), *checkpoint, ModelOptions());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  std::optional<uint64_t> before = residentMemory();
  ContextOptions options;
  options.batch = 1;
  options.threads = 1;
  Expected<std::unique_ptr<Context>> context = Context::create(*loaded, options);
  ASSERT_TRUE(context.ok()) << context.error().message;
  std::optional<uint64_t> after = residentMemory();
  ASSERT_TRUE(before && after);
  double taken = double(after.value_or(0)) - double(before.value_or(0));
  auto planned = double((*context)->plan().contextBytes());
  EXPECT_GT(planned, 40e6);
  EXPECT_GE(taken, 0.98 * planned);
  EXPECT_LE(taken, 1.02 * planned + (2 << 20)); // what the system counts late, and the executor's
}

TEST(MemoryAdvice, CountsWhatInt4WouldTake) {
  Program program;
  program.limits.maxContext = program.limits.maxBatch = 1;
  program.config.vocab = 1000;
  for (int64_t rows : {1000, 500}) { // a token table and another matrix
    WeightRecipe weight;
    weight.storage = ScalarType::BF16;
    weight.shape = {rows, 64};
    weight.bytes = uint64_t(rows) * 64 * 2;
    program.weights.push_back(weight);
  }
  WeightRecipe norm;
  norm.storage = ScalarType::F32;
  norm.shape = {64};
  norm.bytes = 256;
  program.weights.push_back(norm);
  Expected<MemoryPlan> plan = planMemory(program, {0, 0, 1});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->weights, 192'000u + 256);
  // A byte or half a byte a parameter, two for every 32, and the norm.
  EXPECT_EQ(plan->asInt4, 64'000u + 4'000 + 16'000 + 2'000 + 256);
}

// The 12B in bf16 on a machine of 20 GiB, where its caches fit and its weights do not, and on
// others.
TEST(MemoryAdvice, SaysWhetherAPlanFits) {
  constexpr uint64_t mebi = 1 << 20;
  MemoryPlan plan;
  plan.weights = 22712 * mebi;
  plan.asInt4 = 6900 * mebi;
  plan.globalCache = 64 * mebi;
  EXPECT_EQ(fitText(plan, 24000 * mebi), "22776.0 MiB of 24000.0 MiB that are free here: it fits");
  EXPECT_EQ(
      fitText(plan, 20480 * mebi),
      "22776.0 MiB of 20480.0 MiB that are free here: it does not fit; a smaller --context takes "
      "less; weights of gemma-compile --weight-type int4 take some 6900.0 MiB in place of "
      "22712.0 MiB; a file of gemma-compile --pack-weights is mapped and need not fit (the "
      "rest, 64.0 MiB, does fit, but every step would read 2296.0 MiB or more from the disk)");
  EXPECT_EQ(mappedText(plan, 24000 * mebi), "");
  EXPECT_EQ(
      mappedText(plan, 22712 * mebi), // the caches are more than what is left
      "22712.0 MiB of weights are mapped beside 64.0 MiB, 22712.0 MiB of memory are free: every "
      "step reads 64.0 MiB or more from the disk again");
  // Not even what cannot be mapped.
  EXPECT_EQ(fitText(plan, 10 * mebi).find("every step"), std::string::npos);
  // Weights of four bits take no less.
  plan.asInt4 = plan.weights;
  EXPECT_EQ(fitText(plan, 20480 * mebi).find("--weight-type"), std::string::npos);
  EXPECT_EQ(fitText(plan, UINT64_MAX),
            "22776.0 MiB of an unknown amount that is free here: it fits");
}

TEST(OpenArtifactWeights, NamesTheFileThatChanged) {
  Expected<Checkpoint> checkpoint = Checkpoint::open(checkpointFolder());
  ASSERT_TRUE(checkpoint.ok());
  Artifact artifact;
  artifact.program.config = checkpoint->config();
  EXPECT_FALSE(openArtifactWeights(artifact, "", false).ok());
  ASSERT_TRUE(recordCheckpoint(artifact, *checkpoint, true).ok());
  EXPECT_TRUE(openArtifactWeights(artifact, "", true).ok());
  artifact.checkpointFiles[0].contentHash[0] ^= 1;
  EXPECT_TRUE(openArtifactWeights(artifact, "", false).ok());
  Expected<Checkpoint> opened = openArtifactWeights(artifact, "", true);
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message.find("content hash"), std::string::npos);
  artifact.checkpointFiles[0].size += 1;
  opened = openArtifactWeights(artifact, "", false);
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message.find("model.safetensors: changed since"), std::string::npos);
  EXPECT_TRUE(openArtifactWeights(artifact, checkpointFolder(), false).ok());
  EXPECT_FALSE(openArtifactWeights(artifact, "/nowhere", false).ok());
}

} // namespace
