// --deterministic: a token's logits, and what its sequence leaves in the caches, are the same bits
// alone, in a batch of 8 and of 64, and in chunks of 1, 7 and 64. On the emulated device also as
// provenance hashes (docs/decisions/0014), which differ where operations are done in another order
// even if the numbers happen to agree.
#include "SyntheticModel.h"

#include "codegen/emu/EmuCodegen.h"
#include "runtime/device/emu/EmuModule.h"
#include "test/unit/LongTests.h"

#include <ostream>
#include <set>

using namespace gemma;
using namespace gemma::test;

namespace {

enum class On { Host, Emulator, Hashes };

/// The artifact with the same PTX, but kernels that hash in place of computing.
Artifact hashing(Artifact artifact) {
  for (KernelBinary &object : artifact.objects) {
    auto module = emu::Module::load(object.bytes, object.name);
    if (!module) {
      ADD_FAILURE() << module.error().message;
      return artifact;
    }
    codegen::EmuCodegenOptions options;
    options.runsOnce = options.provenance = true;
    auto hashes = codegen::compilePtx(module->ptx(), options);
    if (!hashes) {
      ADD_FAILURE() << object.name << ": " << hashes.error().message;
      return artifact;
    }
    EXPECT_EQ(hashes->ptxHash, module->ptxHash()) << "not the text that was compiled";
    object.bytes = std::move(hashes->bytes);
  }
  return artifact;
}

CompiledModel compiled(const Checkpoint &checkpoint, On device, bool deterministic = true) {
  compiler::CompileOptions options;
  options.dtype = ScalarType::BF16;
  options.deterministic = deterministic;
  options.maxBatch = 64;
  options.maxChunk = 80;
  options.maxContext = 96;
  if (device == On::Host)
    options.isas = {runnableIsas().front()};
  else
    options.targets = {"emu-sm_80"};
  auto artifact = compiler::compileCheckpoint(checkpoint, options);
  if (artifact && device == On::Hashes)
    artifact = hashing(std::move(*artifact));
  // One thread: most launches have few blocks, and each thread of the emulated device costs stacks.
  return CompiledModel::load(std::move(artifact), checkpoint, {.threads = 1});
}

Ids prompt(int64_t length, int32_t salt) {
  Ids ids;
  for (int32_t t = 0; t < length; ++t)
    ids.push_back((37 * salt + 11 * t * t + 5) % 512);
  return ids;
}

/// What a sequence has come to.
struct Outcome {
  std::vector<double> logits; ///< of its last tokens
  std::vector<std::vector<double>> caches;
  bool operator==(const Outcome &) const = default;
};
/// Says which part is another one, not every number.
void PrintTo(const Outcome &outcome, std::ostream *out) {
  *out << outcome.logits.size() << " logits";
  for (size_t i = 0; i < std::min<size_t>(4, outcome.logits.size()); ++i)
    *out << " " << outcome.logits[i];
}

/// Tokens whose logits are compared.
constexpr size_t compared = 4;

Outcome outcomeOf(CompiledModel &model, const Sequence &sequence, std::vector<double> logits) {
  Outcome outcome{std::move(logits), {}};
  for (size_t cache = 0; cache < model.model->program().caches.size(); ++cache) {
    auto [k, v] = model.cached(sequence, cache);
    outcome.caches.push_back(std::move(k.data));
    outcome.caches.push_back(std::move(v.data));
  }
  return outcome;
}

/// A sequence alone, in steps of `chunk` tokens (0: all at once).
Outcome alone(CompiledModel &model, const Ids &ids, int64_t chunk) {
  auto sequence = model.sequence();
  Tensor logits = model.prefill(*sequence, ids, chunk);
  size_t vocab = size_t(logits.dim(1));
  return outcomeOf(model, *sequence,
                   {logits.data.end() - ptrdiff_t(compared * vocab), logits.data.end()});
}

/// All but the last tokens alone, those in a batch of `count`, `fresh` in a step.
Outcome inBatch(CompiledModel &model, const Ids &ids, size_t count, size_t fresh,
                std::set<std::string> &variants) {
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (size_t i = 0; i < count; ++i)
    sequences.push_back(model.sequence());
  model.prefill(*sequences[0], {ids.begin(), ids.end() - compared});
  std::vector<double> logits;
  for (size_t step = 0; step < compared / fresh; ++step) {
    std::vector<Ids> tokens;
    std::vector<StepRow> rows;
    for (size_t i = 0; i < count; ++i)
      tokens.push_back(prompt(int64_t(i < 5 ? fresh : 1), int32_t(i + step)));
    auto next = ids.end() - compared + ptrdiff_t(step * fresh);
    tokens[0].assign(next, next + ptrdiff_t(fresh));
    for (size_t i = 0; i < count; ++i)
      rows.push_back({sequences[i].get(), tokens[i], i ? LogitsWanted::Last : LogitsWanted::All});
    auto result = model.context->step(rows);
    EXPECT_TRUE(result) << result.error().message;
    if (!result)
      return {};
    variants.insert(model.model->program().variants[result->variant].name);
    auto view = model.context->output("logits");
    for (size_t row = 0; row < fresh; ++row) {
      std::vector<double> one(size_t(view->rowElements));
      view->copyRow(result->firstLogitRow[0] + int64_t(row), one);
      logits.insert(logits.end(), one.begin(), one.end());
    }
  }
  return outcomeOf(model, *sequences[0], std::move(logits));
}

/// A sliding and a global layer of narrow-12b's sizes.
constexpr const char *twoLayers = "two-layers";

Checkpoint checkpointOf(const std::string &name) {
  if (name != twoLayers)
    return ReferenceData::open(name).checkpoint;
  static SyntheticModel model("sf", 1,
                              {{"vocab_size", 512},
                               {"hidden_size", 96},
                               {"intermediate_size", 384},
                               {"num_attention_heads", 4},
                               {"num_key_value_heads", 2},
                               {"head_dim", 16},
                               {"global_head_dim", 32},
                               {"sliding_window", 16}});
  return model.open();
}

struct Case {
  const char *model;
  On device;
  bool everyDay;
};

class DeterministicModel : public testing::TestWithParam<Case> {
protected:
  void SetUp() override { ::setenv("GEMMA_EMU", "checks=off", 1); }
  void TearDown() override { ::unsetenv("GEMMA_EMU"); }
};

TEST_P(DeterministicModel, SameBitsAloneInABatchAndInChunks) {
  if (!GetParam().everyDay && !wantsLongTests())
    GTEST_SKIP() << "GEMMA_LONG_TESTS=1";
  CompiledModel model = compiled(checkpointOf(GetParam().model), GetParam().device);
  ASSERT_TRUE(model.model);
  // No launch has tickets: nothing is shared between blocks.
  EXPECT_EQ(model.context->plan().tickets, 0u);

  // Over the window and the ring of the sliding layers, in five pages.
  Ids ids = prompt(70, 0);
  Outcome whole = alone(model, ids, 0);
  for (double logit : whole.logits)
    ASSERT_TRUE(std::isfinite(logit));
  for (int64_t chunk : {1, 7, 64})
    EXPECT_EQ(alone(model, ids, chunk), whole) << "chunks of " << chunk;
  std::set<std::string> variants;
  for (size_t count : {8, 64})
    EXPECT_EQ(inBatch(model, ids, count, 1, variants), whole) << "a batch of " << count;
  for (size_t count : {8, 64})
    EXPECT_EQ(inBatch(model, ids, count, 4, variants), whole) << "beside " << count << " prompts";
  EXPECT_GE(variants.size(), 3u);
  // Other tokens give something else.
  ids[3] ^= 1;
  EXPECT_NE(alone(model, ids, 0), whole);
}

std::string caseName(const testing::TestParamInfo<Case> &info) {
  const char *devices[] = {"Host", "Emulator", "Hashes"};
  std::string name = info.param.model;
  std::replace(name.begin(), name.end(), '-', '_');
  return name + devices[int(info.param.device)];
}

INSTANTIATE_TEST_SUITE_P(
    Models, DeterministicModel,
    testing::Values(Case{twoLayers, On::Host, true}, Case{twoLayers, On::Emulator, true},
                    Case{twoLayers, On::Hashes, true}, Case{"narrow-12b", On::Host, false},
                    Case{"narrow-31b", On::Host, false}, Case{"text-only-f32", On::Host, false},
                    Case{"narrow-12b", On::Emulator, false},
                    Case{"narrow-31b", On::Emulator, false},
                    Case{"text-only-f32", On::Emulator, false},
                    Case{"narrow-12b", On::Hashes, false}, Case{"narrow-31b", On::Hashes, false},
                    Case{"text-only-f32", On::Hashes, false}),
    caseName);

// Without --deterministic blocks share a tile's sum in decode, and the hashes say so.
TEST(SharedWork, HasOtherHashes) {
  ::setenv("GEMMA_EMU", "checks=off", 1);
  CompiledModel model = compiled(checkpointOf(twoLayers), On::Hashes, /*deterministic=*/false);
  ASSERT_TRUE(model.model);
  EXPECT_GT(model.context->plan().tickets, 0u);
  Ids ids = prompt(24, 0);
  Outcome whole = alone(model, ids, 0);
  EXPECT_EQ(alone(model, ids, 0), whole) << "the same order twice";
  std::set<std::string> variants;
  EXPECT_NE(inBatch(model, ids, 1, 1, variants), whole);
  EXPECT_NE(inBatch(model, ids, 8, 1, variants), whole);
  EXPECT_GE(variants.size(), 2u);
  ::unsetenv("GEMMA_EMU");
}

} // namespace
