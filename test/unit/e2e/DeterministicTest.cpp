// --deterministic on the emulated device: a token's logits are the same bits however it is
// computed.
#include "CompiledModel.h"

using namespace gemma;
using namespace gemma::test;

namespace {

/// Logits of the last token of each sequence after a step with the last `fresh` tokens of all of
/// them, everything before in chunks of 7.
std::vector<std::vector<double>> together(CompiledModel &compiled, const std::vector<Ids> &prompts,
                                          size_t fresh) {
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<StepRow> rows;
  for (const Ids &prompt : prompts) {
    sequences.push_back(compiled.sequence());
    Ids before(prompt.begin(), prompt.end() - std::ptrdiff_t(fresh));
    compiled.prefill(*sequences.back(), before, 7);
    rows.push_back({sequences.back().get(), std::span(prompt).last(fresh), LogitsWanted::Last});
  }
  auto result = compiled.context->step(rows);
  EXPECT_TRUE(result) << result.error().message;
  std::vector<std::vector<double>> logits;
  if (!result)
    return logits;
  auto view = compiled.context->output("logits");
  for (int64_t row : result->firstLogitRow) {
    logits.emplace_back(size_t(view->rowElements));
    view->copyRow(row, logits.back());
  }
  return logits;
}

TEST(DeterministicModel, SameBitsAloneInABatchAndInChunks) {
  ReferenceData data = ReferenceData::open("narrow-12b");
  compiler::CompileOptions options;
  options.dtype = ScalarType::BF16;
  options.targets = {"emu-sm_80"};
  options.deterministic = true;
  options.maxBatch = 9;
  options.maxChunk = 64;
  options.maxContext = 64;
  CompiledModel compiled = CompiledModel::make(data.checkpoint, options);
  ASSERT_TRUE(compiled.model);
  // No launch has tickets: nothing is shared between blocks.
  EXPECT_EQ(compiled.context->plan().tickets, 0u);

  // 20 tokens: over the window of 16, in two pages. The others are there to be in one batch.
  std::vector<Ids> prompts;
  for (int32_t i = 0; i < 9; ++i) {
    Ids prompt;
    for (int32_t t = 0; t < (i ? 6 : 20); ++t)
      prompt.push_back((37 * i + 11 * t * t + 5) % 512);
    prompts.push_back(prompt);
  }
  auto sequence = compiled.sequence();
  Tensor whole = compiled.prefill(*sequence, prompts[0]);
  for (int64_t chunk : {1, 7}) {
    sequence = compiled.sequence();
    EXPECT_EQ(compiled.prefill(*sequence, prompts[0], chunk).data, whole.data) << chunk;
  }
  sequence.reset();
  auto row = whole.row(19);
  std::vector<double> alone(row.begin(), row.end());
  // Decode with tiles of 8 and of 32 tokens, and a mixed prefill.
  for (auto [count, fresh] : {std::pair<size_t, size_t>{3, 1}, {9, 1}, {2, 5}}) {
    std::vector<Ids> some(prompts.begin(), prompts.begin() + std::ptrdiff_t(count));
    auto logits = together(compiled, some, fresh);
    ASSERT_EQ(logits.size(), count);
    EXPECT_EQ(logits[0], alone) << count << " sequences, " << fresh << " new tokens each";
  }
}

} // namespace
