// config.json: what each form of it says.
#include "test/unit/ConfigFiles.h"

using namespace gemma;
using namespace gemma::test;

// ---- values

TEST(ModelConfigTest, ReadsThePublished12B) {
  ModelConfig config = readGood("test/data/models/published/gemma-4-12b.config.json");
  EXPECT_EQ(config.vocab, 262144);
  EXPECT_EQ(config.hidden, 3840);
  EXPECT_EQ(config.intermediate, 15360);
  EXPECT_EQ(config.heads, 16);
  ASSERT_EQ(config.layers(), 48);
  for (int64_t i = 0; i < 48; ++i)
    EXPECT_EQ(config.layerKinds[size_t(i)] == LayerKind::Global, i % 6 == 5) << i;
  EXPECT_EQ(config.sliding, (AttentionConfig{.kvHeads = 8,
                                             .headDim = 256,
                                             .window = 1024,
                                             .rope = {1e4, 256, 256, 128},
                                             .valuesAreKeys = false}));
  EXPECT_EQ(config.global, (AttentionConfig{.kvHeads = 1,
                                            .headDim = 512,
                                            .window = 0,
                                            .rope = {1e6, 512, 512, 64},
                                            .valuesAreKeys = true}));
  EXPECT_EQ(config.rmsEps, 1e-6);
  EXPECT_EQ(config.attentionScale, 1);
  EXPECT_EQ(config.softcap, 30.0);
  EXPECT_TRUE(config.tiedHead);
  EXPECT_EQ(config.maxPositions, 262144);
  EXPECT_EQ(config.dtype, ScalarType::BF16);
}

TEST(ModelConfigTest, ReadsThePublished31B) {
  ModelConfig config = readGood("test/data/models/published/gemma-4-31b.config.json");
  EXPECT_EQ(config.hidden, 5376);
  EXPECT_EQ(config.intermediate, 21504);
  EXPECT_EQ(config.heads, 32);
  EXPECT_EQ(config.layers(), 60);
  EXPECT_EQ(config.sliding.kvHeads, 16);
  EXPECT_EQ(config.global.kvHeads, 4);
}

// The flat form, with per_layer_config instead of the two global keys.
TEST(ModelConfigTest, ReadsTheFlatForm) {
  ModelConfig config = readGood("test/data/models/text-only-f32/config.json");
  EXPECT_EQ(config.dtype, ScalarType::F32);
  EXPECT_EQ(config.vocab, 515);
  EXPECT_EQ(config.sliding.headDim, 20);
  EXPECT_EQ(config.sliding.window, 11);
  EXPECT_EQ(config.global.headDim, 40);
  EXPECT_EQ(config.global.kvHeads, 2);
  EXPECT_EQ(config.global.rope, (RopeConfig{1e6, 40, 40, 5}));
}

TEST(ModelConfigTest, ReadsAnIrregularUntiedModel) {
  ModelConfig config = readGood("test/data/models/narrow-12b-tail/config.json");
  EXPECT_FALSE(config.tiedHead);
  EXPECT_EQ(config.dtype, ScalarType::F16);
  std::vector<int64_t> globals;
  for (int64_t i = 0; i < config.layers(); ++i)
    if (config.layerKinds[size_t(i)] == LayerKind::Global)
      globals.push_back(i);
  EXPECT_EQ(globals, (std::vector<int64_t>{1, 5, 9}));
}

TEST(ModelConfigTest, SavedByTransformersIsTheSameModel) {
  for (const std::string folder : {"test/data/models/narrow-12b/", "test/data/models/narrow-31b/"})
    EXPECT_EQ(readGood(folder + "config.json"), readGood(folder + "as_saved_config.json"));
}

// The spec page's rendering, the seed documents' and the published file describe one model.
TEST(ModelConfigTest, AllRenderingsOfOneModelAreEqual) {
  ModelConfig spec = readGood("test/data/configs/gemma-4-12B/config.json");
  EXPECT_EQ(spec, readGood("test/data/configs/gemma-4-12B-published/config.json"));
  EXPECT_EQ(spec, readGood("test/data/models/published/gemma-4-12b.config.json"));
  EXPECT_EQ(readGood("test/data/configs/gemma-4-31B/config.json"),
            readGood("test/data/models/published/gemma-4-31b.config.json"));
}

TEST(ModelConfigTest, FlatAndNestedAreEqual) {
  Expected<ModelConfig> flat = readEdited([](json &config) {
    json text = config.at("text_config");
    text["dtype"] = config.at("dtype");
    text["model_type"] = "gemma4_text";
    config = text;
  });
  ASSERT_TRUE(flat.ok()) << flat.error().message;
  EXPECT_EQ(*flat, base());
}

// ---- forms that mean the same, or have a default

struct Edit {
  const char *name;
  std::function<void(json &top, json &text)> apply;
  std::function<void(ModelConfig &)> expected = [](ModelConfig &) {};
};

class AcceptedConfig : public testing::TestWithParam<Edit> {};

TEST_P(AcceptedConfig, Reads) {
  Expected<ModelConfig> config =
      readEdited([](json &top) { GetParam().apply(top, top.at("text_config")); });
  ASSERT_TRUE(config.ok()) << config.error().message;
  ModelConfig wanted = base();
  GetParam().expected(wanted);
  EXPECT_EQ(*config, wanted);
}

static std::string editName(const testing::TestParamInfo<Edit> &info) { return info.param.name; }

/// base has layers {sliding, full}, head_dim 8 and 16, 1 KV head in both.
static std::vector<Edit> acceptedEdits() {
  return {
      {"SoftcapAsInteger", [](json &, json &text) { text["final_logit_softcapping"] = 30; }},
      {"SoftcapNull", [](json &, json &text) { text["final_logit_softcapping"] = nullptr; },
       [](ModelConfig &config) { config.softcap.reset(); }},
      {"SoftcapAbsent", [](json &, json &text) { text.erase("final_logit_softcapping"); },
       [](ModelConfig &config) { config.softcap.reset(); }},
      {"LayerTypesAbsent", [](json &, json &text) { text.erase("layer_types"); }},
      {"TorchDtype",
       [](json &top, json &) {
         top.erase("dtype");
         top["torch_dtype"] = "float32";
       },
       [](ModelConfig &config) { config.dtype = ScalarType::F32; }},
      {"DtypeInTextConfig",
       [](json &top, json &text) {
         top.erase("dtype");
         text["dtype"] = "float16";
       },
       [](ModelConfig &config) { config.dtype = ScalarType::F16; }},
      {"DtypeAbsent", [](json &top, json &) { top.erase("dtype"); }},
      {"MaxPositionsAbsent", [](json &, json &text) { text.erase("max_position_embeddings"); },
       [](ModelConfig &config) { config.maxPositions = 262144; }},
      {"GlobalHeadDimAbsent", [](json &, json &text) { text.erase("global_head_dim"); },
       [](ModelConfig &config) {
         config.global.headDim = 512;
         config.global.rope = {1e6, 512, 512, 64};
       }},
      {"GlobalKvHeadsAbsent",
       [](json &, json &text) {
         text.erase("num_global_key_value_heads");
         text["num_key_value_heads"] = 2;
       },
       [](ModelConfig &config) { config.sliding.kvHeads = config.global.kvHeads = 2; }},
      {"PerLayerConfigPadded",
       [](json &, json &text) {
         text.erase("global_head_dim");
         text.erase("num_global_key_value_heads");
         text["num_key_value_heads"] = 2;
         text["per_layer_config"] = {{"01", {{"head_dim", 16}, {"num_key_value_heads", 1}}}};
       },
       [](ModelConfig &config) { config.sliding.kvHeads = 2; }},
      {"PerLayerConfigBesideTheSameGlobalKeys",
       [](json &, json &text) { text["per_layer_config"] = {{"1", {{"head_dim", 16}}}}; }},
      {"PerLayerConfigWithoutTheGlobalLayer",
       [](json &, json &text) {
         text.erase("global_head_dim");
         text["per_layer_config"] = json::object();
       },
       [](ModelConfig &config) {
         config.global.headDim = 8;
         config.global.rope = {1e6, 8, 8, 1};
       }},
      {"TieAbsent",
       [](json &top, json &text) {
         top.erase("tie_word_embeddings");
         text.erase("tie_word_embeddings");
       }},
      {"TieOnlyInside",
       [](json &top, json &text) {
         top.erase("tie_word_embeddings");
         text["tie_word_embeddings"] = false;
       },
       [](ModelConfig &config) { config.tiedHead = false; }},
      {"TieOnlyOutside",
       [](json &top, json &text) {
         top["tie_word_embeddings"] = false;
         text.erase("tie_word_embeddings");
       },
       [](ModelConfig &config) { config.tiedHead = false; }},
      {"RopeParametersAbsent", [](json &, json &text) { text.erase("rope_parameters"); }},
      {"RopeTypeAbsentMeansDefault",
       [](json &, json &text) { text["rope_parameters"]["sliding_attention"].erase("rope_type"); }},
      {"RotaryFactorOddProduct", // int(0.7 * 16 // 2) = 5
       [](json &, json &text) {
         text["rope_parameters"]["full_attention"]["partial_rotary_factor"] = 0.7;
       },
       [](ModelConfig &config) { config.global.rope.active = 5; }},
      {"ThetaAsInteger",
       [](json &, json &text) {
         text["rope_parameters"]["sliding_attention"]["rope_theta"] = 10000;
       }},
      {"EpsAbsent", [](json &, json &text) { text.erase("rms_norm_eps"); }},
      {"AllGlobal", // the window then has no meaning
       [](json &, json &text) {
         text["layer_types"] = {"full_attention", "full_attention"};
         text.erase("sliding_window");
       },
       [](ModelConfig &config) {
         config.layerKinds = {LayerKind::Global, LayerKind::Global};
         config.sliding = {};
       }},
      {"AllSliding",
       [](json &, json &text) { text["layer_types"] = {"sliding_attention", "sliding_attention"}; },
       [](ModelConfig &config) {
         config.layerKinds = {LayerKind::Sliding, LayerKind::Sliding};
         config.global = {};
       }},
      {"BidirectionalVision",
       [](json &, json &text) { text["use_bidirectional_attention"] = "vision"; }},
      {"BidirectionalNull",
       [](json &, json &text) { text["use_bidirectional_attention"] = nullptr; }},
      {"BidirectionalFalse",
       [](json &, json &text) { text["use_bidirectional_attention"] = false; }},
      {"NullKeysAreAbsent",
       [](json &, json &text) {
         text["num_experts"] = nullptr;
         text["moe_intermediate_size"] = nullptr;
         text["per_layer_config"] = nullptr;
       }},
      {"UnknownKeys",
       [](json &top, json &text) {
         top["colour"] = {{"a", {1, 2}}};
         text["flavour"] = "sweet";
       }},
      {"ModelTypeAbsent",
       [](json &top, json &text) {
         top.erase("model_type");
         text.erase("model_type");
       }},
      {"ModelTypeAndArchitecturesAbsent",
       [](json &top, json &text) {
         top.erase("model_type");
         top.erase("architectures");
         text.erase("model_type");
       }},
      {"KEqVAbsentInTheUnifiedForm", [](json &, json &text) { text.erase("attention_k_eq_v"); }},
  };
}

INSTANTIATE_TEST_SUITE_P(Edits, AcceptedConfig, testing::ValuesIn(acceptedEdits()), editName);

// ---- eos ids

TEST(ModelConfigTest, EosIdsOfEitherLevelOrTheDefault) {
  auto eosIds = [](const std::function<void(json &)> &edit) {
    json config = json::parse(readText(sourcePath("test/data/models/bad/base/config.json")));
    edit(config);
    TempFolder folder;
    writeText(folder / "config.json", config.dump());
    Problems problems;
    std::vector<int64_t> ids = readConfigFile(folder / "config.json", problems).eosIds;
    EXPECT_TRUE(problems.empty());
    return ids;
  };
  EXPECT_EQ(eosIds([](json &config) { config["text_config"]["eos_token_id"] = 7; }),
            (std::vector<int64_t>{7}));
  EXPECT_EQ(eosIds([](json &config) {
              config["text_config"].erase("eos_token_id");
              config["eos_token_id"] = {9, 8};
            }),
            (std::vector<int64_t>{9, 8}));
  EXPECT_EQ(eosIds([](json &config) { config["text_config"].erase("eos_token_id"); }),
            (std::vector<int64_t>{1}));
}
