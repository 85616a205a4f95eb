// config.json: every refusal, and damage at every position.
#include "runtime/checkpoint/Checkpoint.h"
#include "test/unit/ConfigFiles.h"

#include <algorithm>

using namespace gemma;
using namespace gemma::test;

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
