// Caches of values alone: the same numbers in half the memory.
#include "CompiledModel.h"

#include "runtime/abi/ProgramSizes.h"

using namespace gemma;
using namespace gemma::test;

namespace {

class CompiledSharing : public testing::TestWithParam<const char *> {
protected:
  ReferenceData data = ReferenceData::open(GetParam());

  /// Ids of the vocabulary, in an irregular order, past the border of 512 between the tables'
  /// blocks where the context allows it.
  Ids longPrompt() {
    Ids ids;
    for (int64_t i = 0; i < 531; ++i)
      ids.push_back(int32_t((i * 7919 + i / 3) % data.checkpoint.config().vocab));
    return ids;
  }
  /// The prompt in chunks, its last tokens one by one.
  Tensor logits(CompiledModel &compiled, const Ids &ids) {
    auto sequence = compiled.sequence();
    Tensor all = compiled.prefill(*sequence, Ids(ids.begin(), ids.end() - 24));
    Tensor tail = compiled.prefill(*sequence, Ids(ids.end() - 24, ids.end()), 1);
    all.data.insert(all.data.end(), tail.data.begin(), tail.data.end());
    all.shape[0] += tail.shape[0];
    return all;
  }
  CompiledModel make(ScalarType type, bool sharing) {
    return CompiledModel::make(
        data.checkpoint, {.dtype = type, .maxContext = 544, .maxChunk = 96, .kvSharing = sharing});
  }
};

TEST_P(CompiledSharing, LogitsInF64AreThoseOfStoredKeys) {
  CompiledModel shared = make(ScalarType::F64, true), stored = make(ScalarType::F64, false);
  Ids ids = longPrompt();
  Tensor expected = logits(stored, ids);
  EXPECT_LE(distance(logits(shared, ids), expected), 1e-13);
}

TEST_P(CompiledSharing, HalfTheBytesAreAllocated) {
  CompiledModel shared = make(ScalarType::BF16, true), stored = make(ScalarType::BF16, false);
  const Program &program = shared.model->program();
  const ModelConfig &config = data.checkpoint.config();
  uint64_t global = 0;
  for (size_t i = 0; i < program.caches.size(); ++i) {
    const CachePlan &cache = program.caches[i];
    bool half = config.layerKinds[i] == LayerKind::Global && config.global.valuesAreKeys;
    EXPECT_EQ(cache.keys, !half) << cache.name;
    EXPECT_TRUE(stored.model->program().caches[i].keys);
    uint64_t keys = shared.context->cacheLane(i, "k").size(),
             values = shared.context->cacheLane(i, "v").size();
    EXPECT_EQ(keys, half ? 0 : values);
    EXPECT_EQ(values, stored.context->cacheLane(i, "v").size());
    if (!cache.ring)
      global += keys + values;
  }
  EXPECT_EQ(shared.context->plan().globalCache, global);
  EXPECT_EQ(stored.context->plan().globalCache, global * (config.global.valuesAreKeys ? 2 : 1));
  // A position of one sequence.
  EXPECT_EQ(shared.context->plan().globalPositionBytes, global / 544);
}

TEST_P(CompiledSharing, StoredKeysStillMeetTheReference) {
  for (auto [type, bound] : {std::pair(ScalarType::F64, 1e-12), {ScalarType::F32, 1e-4}}) {
    CompiledModel stored = make(type, false);
    auto sequence = stored.sequence();
    Tensor got = stored.prefill(*sequence, data.reference.ids("prompt.100.tokens"));
    EXPECT_LE(distance(got, data.reference.tensor("prompt.100.logits")), bound);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CompiledSharing,
                         testing::Values("narrow-12b", "narrow-31b", "text-only-f32"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(CompiledKjvMiniSharing, SharedAndStoredAgree) {
  ReferenceData data = ReferenceData::open("examples/kjv-mini");
  Ids ids = data.reference.ids("logits100.tokens");
  Tensor logits[2];
  for (bool sharing : {false, true}) {
    CompiledModel compiled =
        CompiledModel::make(data.checkpoint, {.dtype = ScalarType::F64, .kvSharing = sharing});
    auto sequence = compiled.sequence();
    logits[sharing] = compiled.prefill(*sequence, ids);
  }
  EXPECT_LE(distance(logits[1], logits[0]), 1e-13);
}

} // namespace
