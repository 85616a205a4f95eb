// The damaged checkpoint folders of test/data/models/bad.
#include "runtime/checkpoint/Checkpoint.h"
#include "test/unit/TestFiles.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

using namespace gemma;
using namespace gemma::test;
using nlohmann::json;

struct BadCase {
  std::string folder;
  std::string expect;
};

static void PrintTo(const BadCase &bad, std::ostream *out) { *out << bad.folder; }

static std::vector<BadCase> badCases() {
  std::vector<BadCase> cases;
  json manifest = json::parse(readText(sourcePath("test/data/models/bad/manifest.json")));
  for (const json &entry : manifest)
    cases.push_back({entry.at("dir"), entry.at("expect")});
  return cases;
}

/// What the message must say: the fault, in words that lead to it.
static const std::map<std::string, std::vector<std::string>> kWords = {
    {"st-truncated-data", {"model.safetensors", "need", "have"}},
    {"st-truncated-header", {"model.safetensors", "header", "need", "have"}},
    {"st-empty", {"model.safetensors", "need 8 bytes, have 0"}},
    {"st-seven-bytes", {"model.safetensors", "need 8 bytes, have 7"}},
    {"st-header-longer-than-file", {"model.safetensors", "header", "need", "have"}},
    {"st-header-length-2-63", {"header length", "9223372036854775808"}},
    {"st-header-length-zero", {"header length", "got 0"}},
    {"st-header-not-json", {"model.safetensors", "header"}},
    {"st-header-array", {"header", "JSON object", "["}},
    {"st-offset-negative", {"data_offsets", "non-negative", "-"}},
    {"st-offsets-overlap", {"overlap"}},
    {"st-offsets-reversed", {"data_offsets", "end not before the begin"}},
    {"st-offsets-past-end", {"past the end of the file", "need", "have"}},
    {"st-size-mismatch", {"data_offsets", "expected", "bytes (shape"}},
    {"st-three-offsets", {"data_offsets", "two"}},
    {"st-trailing-bytes", {"last tensor", "bytes more"}},
    {"st-duplicate-name", {"duplicate tensor name"}},
    {"st-unknown-dtype", {"dtype", "F12"}},
    {"st-shape-overflow", {"shape", "2^64"}},
    {"st-shape-negative", {"shape", "non-negative"}},
    {"st-missing-dtype", {"dtype", "got nothing"}},
    {"weights-missing-tensor", {"layers.1.self_attn.o_proj.weight", "no such tensor"}},
    {"weights-missing-layer-scalar", {"layers.0.layer_scalar", "no such tensor"}},
    {"weights-wrong-shape", {"layers.0.mlp.down_proj.weight", "[16, 24]", "[24, 16]"}},
    {"weights-vocab-mismatch", {"embed_tokens.weight", "[40, 16]", "[32, 16]"}},
    {"index-missing-shard", {"no such file"}},
    {"index-dotdot", {"weight_map", ".."}},
    {"index-absolute", {"weight_map", "\"/"}},
    {"index-not-object", {"weight_map", "an object", "array"}},
    {"no-weights", {"model.safetensors", "neither"}},
    {"config-layer-types-short", {"layer_types", "2", "1 value"}},
    {"config-layer-types-long", {"layer_types", "2", "3 values"}},
    {"config-layer-types-unknown", {"layer_types[0]", "linear_attention"}},
    {"config-unknown-activation", {"hidden_activation", "swiggle"}},
    {"config-other-activation", {"hidden_activation", "relu"}},
    {"config-moe", {"enable_moe_block", "true"}},
    {"config-per-layer-input", {"hidden_size_per_layer_input", "256"}},
    {"config-kv-shared", {"num_kv_shared_layers", "2"}},
    {"config-double-wide", {"use_double_wide_mlp", "true"}},
    {"config-rope-unknown", {"rope_parameters.full_attention.rope_type", "spiral"}},
    {"config-rope-missing-theta", {"rope_parameters.sliding_attention.rope_theta", "nothing"}},
    {"config-rope-theta-negative", {"rope_parameters.sliding_attention.rope_theta", "-1.0"}},
    {"config-heads-not-divisible", {"num_key_value_heads", "2 query heads", "got 3"}},
    {"config-huge-layers", {"num_hidden_layers", "1000000000"}},
    {"config-huge-layers-no-types", {"num_hidden_layers", "1000000000"}},
    {"config-invalid-utf8", {"config.json", "UTF-8"}},
    {"config-deep-nesting", {"config.json", "nested deeper than"}},
    {"config-float-for-int", {"hidden_size", "16.5"}},
    {"config-string-for-int", {"num_attention_heads", "\"2\""}},
    {"config-negative-size", {"intermediate_size", "-24"}},
    {"config-zero-heads", {"num_key_value_heads", "got 0"}},
    {"config-zero-window", {"sliding_window", "got 0"}},
    {"config-truncated", {"config.json", "JSON"}},
    {"config-empty", {"config.json", "empty"}},
    {"config-absent", {"config.json", "cannot open"}},
    {"config-array", {"config.json", "an array"}},
    {"config-other-model", {"model_type", "llama"}},
    {"config-attention-bias", {"attention_bias", "true"}},
};

/// The folders of kind "either" that are refused here.
static const std::vector<std::string> kRefusedEither = {"config-other-activation",
                                                        "config-double-wide"};

class BadCheckpoint : public testing::TestWithParam<BadCase> {};

TEST_P(BadCheckpoint, IsTreatedAsTheManifestSays) {
  const BadCase &bad = GetParam();
  Expected<Checkpoint> checkpoint =
      Checkpoint::open(sourcePath("test/data/models/bad") / bad.folder);
  bool refused = bad.expect == "reject" || std::find(kRefusedEither.begin(), kRefusedEither.end(),
                                                     bad.folder) != kRefusedEither.end();
  if (!refused) {
    EXPECT_OK(checkpoint);
    return;
  }
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_EQ(checkpoint.error().kind, ErrorKind::BadInput);
  EXPECT_LT(checkpoint.error().message.size(), 8000u);
  auto words = kWords.find(bad.folder);
  ASSERT_NE(words, kWords.end()) << "no words for this case; got: " << checkpoint.error().message;
  for (const std::string &word : words->second)
    EXPECT_ERROR(checkpoint, word);
}

INSTANTIATE_TEST_SUITE_P(Manifest, BadCheckpoint, testing::ValuesIn(badCases()),
                         [](const testing::TestParamInfo<BadCase> &info) {
                           std::string name = info.param.folder;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(BadCheckpointTest, EveryFolderIsInTheManifest) {
  size_t folders = 0;
  for (const auto &entry : std::filesystem::directory_iterator(sourcePath("test/data/models/bad")))
    folders += entry.is_directory();
  EXPECT_EQ(folders, badCases().size());
}

// A checkpoint that only the index or the number of files tells apart is the same model.
TEST(BadCheckpointTest, AcceptedOnesAreTheSameModelAsBase) {
  Expected<Checkpoint> base = Checkpoint::open(sourcePath("test/data/models/bad/base"));
  ASSERT_TRUE(base.ok()) << base.error().message;
  for (const char *name : {"base-sharded", "config-no-layer-types", "index-wrong-shard"}) {
    Expected<Checkpoint> other = Checkpoint::open(sourcePath("test/data/models/bad") / name);
    ASSERT_TRUE(other.ok()) << other.error().message;
    EXPECT_EQ(base->config(), other->config()) << name;
    for (const auto &[canonical, tensor] : base->tensors()) {
      auto left = base->data(tensor), right = other->data(other->tensors().at(canonical));
      EXPECT_TRUE(std::equal(left.begin(), left.end(), right.begin(), right.end()))
          << name << ": " << canonical;
    }
  }
}
