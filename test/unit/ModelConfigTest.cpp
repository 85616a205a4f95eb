// config.json: every form, every refusal, and the tensors that a configuration asks for.
#include "runtime/checkpoint/ModelConfig.h"

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/ConfigReader.h"
#include "test/unit/TestFiles.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>

using namespace gemma;
using namespace gemma::test;
using nlohmann::json;

static ModelConfig readGood(std::string_view relative) {
  Expected<ModelConfig> config = readModelConfig(sourcePath(relative));
  if (!config) {
    ADD_FAILURE() << config.error().message;
    return {};
  }
  return std::move(*config);
}

/// The configuration of bad/base (valid; nested form, 2 layers) after `edit`, read from a file.
static Expected<ModelConfig> readEdited(const std::function<void(json &)> &edit) {
  json config = json::parse(readText(sourcePath("test/data/models/bad/base/config.json")));
  edit(config);
  TempFolder folder;
  writeText(folder / "config.json", config.dump());
  return readModelConfig(folder / "config.json");
}

static Expected<ModelConfig> readEditedText(const std::function<void(json &)> &edit) {
  return readEdited([&](json &config) { edit(config.at("text_config")); });
}

static ModelConfig base() { return readGood("test/data/models/bad/base/config.json"); }

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

// ---- refusals: each names the key and what it found

struct Refusal {
  const char *name;
  std::function<void(json &top, json &text)> apply;
  std::vector<std::string> words;
};

class RefusedConfig : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedConfig, NamesTheKey) {
  Expected<ModelConfig> config =
      readEdited([](json &top) { GetParam().apply(top, top.at("text_config")); });
  for (const std::string &word : GetParam().words)
    EXPECT_ERROR(config, word);
  EXPECT_ERROR(config, "config.json: ");
}

/// Sets one key of text_config; the message must hold the key path and `got`.
static Refusal wrongValue(const char *name, const char *key, json value, const char *got) {
  return {name,
          [=](json &, json &text) { text[key] = value; },
          {std::string("text_config.") + key, std::string("got ") + got}};
}

static std::vector<Refusal> refusals() {
  std::vector<Refusal> list = {
      wrongValue("VocabZero", "vocab_size", 0, "0"),
      wrongValue("VocabHuge", "vocab_size", int64_t(1) << 40, "1099511627776"),
      wrongValue("VocabBeyond64Bits", "vocab_size", 1.8446744073709552e19, "1.84467440737"),
      wrongValue("VocabUnsigned64", "vocab_size", UINT64_MAX, "18446744073709551615"),
      wrongValue("HiddenFraction", "hidden_size", 16.5, "16.5"),
      wrongValue("HiddenWholeFloat", "hidden_size", 16.0, "16.0"),
      wrongValue("HiddenString", "hidden_size", "16", "\"16\""),
      wrongValue("HiddenList", "hidden_size", json::array({16}), "an array of 1 value"),
      wrongValue("HiddenBool", "hidden_size", true, "true"),
      wrongValue("HiddenNull", "hidden_size", nullptr, "nothing"),
      wrongValue("IntermediateHuge", "intermediate_size", int64_t(1) << 62, "4611686018427387904"),
      wrongValue("LayersTooMany", "num_hidden_layers", 1025, "1025"),
      wrongValue("LayersZero", "num_hidden_layers", 0, "0"),
      wrongValue("LayerTypesObject", "layer_types", json::object(), "an object"),
      wrongValue("HeadsZero", "num_attention_heads", 0, "0"),
      wrongValue("HeadsHuge", "num_attention_heads", 1 << 20, "1048576"),
      wrongValue("HeadDimHuge", "head_dim", 1 << 20, "1048576"),
      wrongValue("HeadDimOdd", "head_dim", 7, "7"),
      wrongValue("WindowNegative", "sliding_window", -4, "-4"),
      wrongValue("WindowNull", "sliding_window", nullptr, "nothing"),
      wrongValue("EpsNegative", "rms_norm_eps", -1e-6, "-1e-06"),
      wrongValue("EpsString", "rms_norm_eps", "1e-6", "\"1e-6\""),
      wrongValue("SoftcapZero", "final_logit_softcapping", 0.0, "0.0"),
      wrongValue("SoftcapString", "final_logit_softcapping", "30", "\"30\""),
      wrongValue("MaxPositionsZero", "max_position_embeddings", 0, "0"),
      wrongValue("Experts", "num_experts", 8, "8"),
      wrongValue("KEqVFalse", "attention_k_eq_v", false, "false"),
      wrongValue("BidirectionalAll", "use_bidirectional_attention", "all", "\"all\""),
      wrongValue("BidirectionalTrue", "use_bidirectional_attention", true, "true"),
      wrongValue("RopeParametersList", "rope_parameters", json::array(), "an array"),
      wrongValue("PerLayerList", "per_layer_config", json::array(), "an array"),
      wrongValue("EosString", "eos_token_id", "1", "\"1\""),
      wrongValue("EosNested", "eos_token_id", json::array({1, json::array({2})}), "an array"),
  };
  auto add = [&](Refusal refusal) { list.push_back(std::move(refusal)); };
  add({"TextConfigList",
       [](json &top, json &) { top["text_config"] = json::array(); },
       {"text_config: expected an object"}});
  add({"TextModelTypeGemma3",
       [](json &, json &text) { text["model_type"] = "gemma3_text"; },
       {"text_config.model_type", "\"gemma3_text\""}});
  add({"ModelTypeNumber",
       [](json &top, json &) { top["model_type"] = 4; },
       {"model_type: expected a string, got 4"}});
  add({"OtherArchitecture",
       [](json &top, json &text) {
         top.erase("model_type");
         text.erase("model_type");
         top["architectures"] = {"Qwen3ForCausalLM"};
       },
       {"architectures", "Qwen3ForCausalLM"}});
  add({"NothingThatSaysGemma",
       [](json &top, json &text) {
         top.erase("model_type");
         text.erase("model_type");
         top.erase("architectures");
         text.erase("attention_k_eq_v");
       },
       {"model_type: expected gemma4", "got nothing"}});
  // The class without "unified" takes an absent key for false.
  add({"KEqVAbsentInTheOtherForm",
       [](json &top, json &text) {
         top["model_type"] = "gemma4";
         text["model_type"] = "gemma4_text";
         text.erase("attention_k_eq_v");
       },
       {"text_config.attention_k_eq_v", "got nothing"}});
  add({"Quantised",
       [](json &top, json &) { top["quantization_config"] = {{"bits", 4}}; },
       {"quantization_config"}});
  add({"DtypeUnknown", [](json &top, json &) { top["dtype"] = "int8"; }, {"dtype", "\"int8\""}});
  add({"TieContradicts",
       [](json &top, json &) { top["tie_word_embeddings"] = false; },
       {"text_config.tie_word_embeddings", "got true"}});
  add({"LayerTypeNumber",
       [](json &, json &text) { text["layer_types"][1] = 5; },
       {"layer_types[1]", "got 5"}});
  add({"RopeKindAbsent",
       [](json &, json &text) { text["rope_parameters"].erase("full_attention"); },
       {"rope_parameters.full_attention: expected an object, got nothing"}});
  add({"RopeFactor",
       [](json &, json &text) { text["rope_parameters"]["full_attention"]["factor"] = 8.0; },
       {"rope_parameters.full_attention.factor", "got 8.0"}});
  add({"RotaryFactorTooLarge",
       [](json &, json &text) {
         text["rope_parameters"]["full_attention"]["partial_rotary_factor"] = 1.5;
       },
       {"partial_rotary_factor", "got 1.5"}});
  add({"RotaryFactorBesideDefault",
       [](json &, json &text) {
         text["rope_parameters"]["full_attention"]["rope_type"] = "default";
       },
       {"rope_parameters.full_attention.partial_rotary_factor", "got 0.25"}});
  add({"GlobalKvHeadsNoDivisor",
       [](json &, json &text) {
         text["num_attention_heads"] = 4;
         text["num_global_key_value_heads"] = 3;
       },
       {"4 query heads of full_attention layers", "got 3"}});
  add({"HeadsTimesWidthTooLarge",
       [](json &, json &text) {
         text["num_attention_heads"] = 1 << 14;
         text["head_dim"] = 1 << 14;
       },
       {"heads times head dimension", "got 268435456"}});
  add({"PerLayerContradictsGlobalHeadDim",
       [](json &, json &text) { text["per_layer_config"] = {{"1", {{"head_dim", 32}}}}; },
       {"global_head_dim: expected 32 as in per_layer_config, got 16"}});
  add({"PerLayerUnequal",
       [](json &, json &text) {
         text["layer_types"] = {"full_attention", "full_attention"};
         text["per_layer_config"] = {{"0", {{"head_dim", 16}}}, {"1", {{"head_dim", 32}}}};
       },
       {"same sizes in all full_attention layers", "32 in layer 1"}});
  add({"PerLayerNumberOutside",
       [](json &, json &text) { text["per_layer_config"] = {{"02", {{"head_dim", 16}}}}; },
       {"per_layer_config.\"02\": expected a layer number below 2"}});
  add({"PerLayerNoNumber",
       [](json &, json &text) { text["per_layer_config"] = {{"1x", {{"head_dim", 16}}}}; },
       {"per_layer_config.\"1x\""}});
  add({"PerLayerTwice",
       [](json &, json &text) {
         text["per_layer_config"] = {{"1", {{"head_dim", 16}}}, {"01", {{"head_dim", 16}}}};
       },
       {"expected each layer once"}});
  add({"PerLayerBadValue",
       [](json &, json &text) { text["per_layer_config"] = {{"1", {{"head_dim", 16.5}}}}; },
       {"per_layer_config", "1.head_dim", "got 16.5"}});
  add({"PerLayerOtherKey",
       [](json &, json &text) { text["per_layer_config"] = {{"1", {{"intermediate_size", 48}}}}; },
       {"per_layer_config", "intermediate_size", "expected 24 as in all layers, got 48"}});
  add({"PerLayerNoObject",
       [](json &, json &text) { text["per_layer_config"] = {{"1", 5}}; },
       {"per_layer_config.\"1\": expected an object, got 5"}});
  return list;
}

INSTANTIATE_TEST_SUITE_P(Edits, RefusedConfig, testing::ValuesIn(refusals()),
                         [](const testing::TestParamInfo<Refusal> &info) {
                           return std::string(info.param.name);
                         });

TEST(ModelConfigTest, ReportsAllProblemsOneALine) {
  Expected<ModelConfig> config = readEditedText([](json &text) {
    text["vocab_size"] = 0;
    text["hidden_size"] = "x";
    text["num_experts"] = 3;
  });
  EXPECT_ERROR(config, "vocab_size");
  EXPECT_ERROR(config, "hidden_size");
  EXPECT_ERROR(config, "num_experts");
  EXPECT_EQ(std::count(config.error().message.begin(), config.error().message.end(), '\n'), 2);
}

TEST(ModelConfigTest, StopsAtTwentyProblems) {
  Expected<ModelConfig> config = readEditedText([](json &text) {
    text["num_hidden_layers"] = 1000;
    text["layer_types"] = std::vector<std::string>(1000, "linear_attention");
  });
  EXPECT_ERROR(config, "layer_types[19]");
  EXPECT_ERROR(config, "\nand 980 more");
  EXPECT_EQ(config.error().message.find("layer_types[20]"), std::string::npos);
}

TEST(ModelConfigTest, DuplicateKeyIsNamed) {
  TempFolder folder;
  writeText(folder / "config.json", R"({"text_config": {"head_dim": 8, "head_dim": 16}})");
  EXPECT_ERROR(readModelConfig(folder / "config.json"), "duplicate key head_dim");
}

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

// ---- damage at every position: a message, or a configuration whose sizes can be used

TEST(ModelConfigFuzzTest, FlippedReplacedAndTruncated) {
  const std::string good = readText(sourcePath("test/data/models/bad/base/config.json"));
  auto tryText = [&](const std::string &text) {
    // A copy of exactly this size: a read past it is seen by the sanitizer.
    std::vector<char> exact(text.begin(), text.end());
    Problems problems;
    ConfigFile file = readConfigText({exact.data(), exact.size()}, "config.json", problems);
    EXPECT_EQ(file.model.has_value(), problems.empty());
    if (!file.model)
      return;
    EXPECT_LE(file.model->layers(), 1024);
    for (const auto &[name, tensor] : requiredTensors(*file.model))
      for (int64_t dim : tensor.shape)
        ASSERT_TRUE(dim >= 1 && dim <= 1 << 24) << name;
  };
  for (size_t at = 0; at < good.size(); ++at)
    for (char c : {char(good[at] ^ 1), char(good[at] ^ 0x80), '9', '-', '"', '}'}) {
      std::string bad = good;
      bad[at] = c;
      tryText(bad);
    }
  for (size_t size = 0; size < good.size(); ++size)
    tryText(good.substr(0, size));
}

// ---- required tensors

static void expectPublishedTensors(const std::string &model, int64_t parameters) {
  std::string stem = "test/data/models/published/" + model;
  TensorTable required = requiredTensors(readGood(stem + ".config.json"));
  json published = json::parse(readText(sourcePath(stem + ".tensors.json"))).at("tensors");
  EXPECT_EQ(required.size(), published.size());
  int64_t elements = 0;
  for (const auto &[canonical, tensor] : required) {
    std::string name = "model.language_model." + canonical;
    ASSERT_TRUE(published.contains(name)) << name;
    EXPECT_EQ(published.at(name).get<std::vector<int64_t>>(), tensor.shape) << name;
    int64_t product = 1;
    for (int64_t dim : tensor.shape)
      product *= dim;
    elements += product;
  }
  EXPECT_EQ(elements, parameters);
}

TEST(RequiredTensorsTest, AreThePublishedOnesOf12B) {
  expectPublishedTensors("gemma-4-12b", 11907350320);
}

TEST(RequiredTensorsTest, AreThePublishedOnesOf31B) {
  expectPublishedTensors("gemma-4-31b", 30697345340);
}

TEST(RequiredTensorsTest, UntiedModelNeedsAHead) {
  ModelConfig config = base();
  EXPECT_FALSE(requiredTensors(config).contains("lm_head.weight"));
  config.tiedHead = false;
  EXPECT_EQ(requiredTensors(config).at("lm_head.weight").shape, (std::vector<int64_t>{32, 16}));
}
