// Reads config.json of the official classes:
//
//   nested (Gemma4ForConditionalGeneration, Gemma4UnifiedForConditionalGeneration):
//     { "model_type": "gemma4" | "gemma4_unified", "dtype": ..., "tie_word_embeddings": ...,
//       "text_config": { <the text model's keys> }, "vision_config": ..., ... }
//   flat (Gemma4ForCausalLM):
//     { "model_type": "gemma4_text", "dtype": ..., <the text model's keys> }
//
// Unknown keys are ignored, null counts as absent. A key that the official classes know, with a
// value that this project does not compute, is refused by name: the alternative is wrong numbers.
#include "runtime/checkpoint/ConfigReader.h"

#include "runtime/checkpoint/AttentionReader.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/GenerationConfig.h"
#include "runtime/support/File.h"
#include "runtime/support/JsonObject.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace gemma {

using nlohmann::json;

static constexpr uint64_t kMaxFileBytes = uint64_t(16) << 20;

static constexpr int64_t kMaxLayers = 1024;
static constexpr int64_t kMaxVocab = int64_t(1) << 24;

// What the official text configuration has where the file is silent.
static constexpr int64_t kDefaultMaxPositions = 262144;
static constexpr double kDefaultRmsEps = 1e-6;
static constexpr int64_t kGlobalEvery = 6;

namespace {

/// One file being read. Each read* function handles a few keys and reports what is wrong with them.
class ConfigReader {
public:
  ConfigReader(const JsonObject &top, const JsonObject &text) : top(top), text(text) {}

  /// Whether the file describes a Gemma 4 text model at all.
  bool checkFamily();
  std::optional<ModelConfig> read();

private:
  void refuseUncomputedKeys();
  void requireValue(std::string_view key, const json &wanted);
  void readSizes();
  void readLayerKinds();
  void readHead();
  void readDtype();

  Problems &problems() { return text.problems(); }

  const JsonObject &top, &text;
  bool unified = false; ///< a gemma4_unified form, whose class has fewer keys
  ModelConfig config;
};

} // namespace

bool ConfigReader::checkFamily() {
  static constexpr std::array<std::string_view, 4> kTypes = {"gemma4", "gemma4_unified",
                                                             "gemma4_text", "gemma4_unified_text"};
  bool named = false;
  for (const JsonObject *level : {&top, &text}) {
    if (!level->has("model_type"))
      continue;
    std::optional<std::string> type = level->string("model_type");
    if (!type)
      return false;
    if (std::find(kTypes.begin(), kTypes.end(), *type) == kTypes.end()) {
      level->mismatch("model_type", "gemma4, gemma4_unified, gemma4_text or gemma4_unified_text");
      return false;
    }
    named = true;
    unified = unified || type->starts_with("gemma4_unified");
  }
  if (named)
    return true;

  // Without a model_type the class name speaks, else a key that only this family has.
  if (const json *classes = top.find("architectures")) {
    if (classes->is_array())
      for (const json &name : *classes)
        if (name.is_string() && name.get_ref<const std::string &>().starts_with("Gemma4")) {
          unified = name.get_ref<const std::string &>().starts_with("Gemma4Unified");
          return true;
        }
    problems().add(top.place("architectures") + ": expected a Gemma4 class (there is no " +
                   "model_type), got " +
                   (classes->is_array() && !classes->empty() ? describe(classes->front())
                                                             : describe(*classes)));
    return false;
  }
  if (text.has("attention_k_eq_v"))
    return true;
  top.mismatch("model_type", "gemma4, gemma4_unified, gemma4_text or gemma4_unified_text");
  return false;
}

/// A key that may be absent, but not have another value.
void ConfigReader::requireValue(std::string_view key, const json &wanted) {
  const json *value = text.find(key);
  if (value && *value != wanted)
    text.mismatch(key, describe(wanted) + " (nothing else is computed here)");
}

void ConfigReader::refuseUncomputedKeys() {
  requireValue("enable_moe_block", false);
  requireValue("num_experts", 0);
  requireValue("hidden_size_per_layer_input", 0);
  requireValue("num_kv_shared_layers", 0);
  requireValue("use_double_wide_mlp", false);
  requireValue("attention_bias", false);
  requireValue("hidden_activation", "gelu_pytorch_tanh");

  // The unified class has no such key and always shares; in the other one absent means false.
  if (const json *value = text.find("attention_k_eq_v"); value ? *value != json(true) : !unified)
    text.mismatch("attention_k_eq_v", "true (nothing else is computed here)");

  const json *bidirectional = text.find("use_bidirectional_attention");
  if (bidirectional && *bidirectional != json(false) && *bidirectional != json("vision"))
    text.mismatch("use_bidirectional_attention", "null or \"vision\" (text attends causally here)");
  if (top.has("quantization_config"))
    top.mismatch("quantization_config", "none (quantised checkpoints are not read here)");
}

void ConfigReader::readSizes() {
  auto size = [&](std::string_view key, int64_t max) {
    return text.requiredInteger(key, {1, max}).value_or(0);
  };
  config.vocab = size("vocab_size", kMaxVocab);
  config.hidden = size("hidden_size", kMaxWidth);
  config.intermediate = size("intermediate_size", kMaxWidth);
  config.heads = size("num_attention_heads", kMaxHeads);
  config.maxPositions =
      text.integer("max_position_embeddings", {1, kMaxPositions}).value_or(kDefaultMaxPositions);

  config.rmsEps = text.number("rms_norm_eps").value_or(kDefaultRmsEps);
  if (!(config.rmsEps >= 0 && config.rmsEps <= 1))
    text.mismatch("rms_norm_eps", "a number from 0 to 1");
}

void ConfigReader::readLayerKinds() {
  std::optional<int64_t> count = text.requiredInteger("num_hidden_layers", {1, kMaxLayers});
  const json *types = text.find("layer_types");
  if (types && !types->is_array())
    return text.mismatch("layer_types", "a list of layer types");
  if (types && count && types->size() != size_t(*count))
    return text.mismatch("layer_types", "as many values as num_hidden_layers says (" +
                                            std::to_string(*count) + ")");
  if (!count)
    return;
  if (!types) {
    for (int64_t i = 0; i < *count; ++i)
      config.layerKinds.push_back(i % kGlobalEvery == kGlobalEvery - 1 || i == *count - 1
                                      ? LayerKind::Global
                                      : LayerKind::Sliding);
    return;
  }
  for (size_t i = 0; i < types->size(); ++i) {
    const json &type = (*types)[i];
    bool sliding = type == json(layerTypeName(LayerKind::Sliding));
    if (!sliding && type != json(layerTypeName(LayerKind::Global)))
      problems().add(text.place("layer_types") + "[" + std::to_string(i) +
                     "]: expected \"sliding_attention\" or \"full_attention\", got " +
                     describe(type));
    config.layerKinds.push_back(sliding ? LayerKind::Sliding : LayerKind::Global);
  }
}

void ConfigReader::readHead() {
  config.softcap = text.number("final_logit_softcapping");
  if (config.softcap && !(*config.softcap > 0 && std::isfinite(*config.softcap)))
    text.mismatch("final_logit_softcapping", "a positive number or null");
  std::optional<bool> outer = top.boolean("tie_word_embeddings");
  std::optional<bool> inner = text.boolean("tie_word_embeddings");
  if (outer && inner && *outer != *inner)
    text.mismatch("tie_word_embeddings",
                  std::string(*outer ? "true" : "false") + " as outside text_config");
  config.tiedHead = outer.value_or(inner.value_or(true));
}

void ConfigReader::readDtype() {
  static constexpr std::pair<std::string_view, ScalarType> kNames[] = {
      {"bfloat16", ScalarType::BF16},
      {"float16", ScalarType::F16},
      {"float32", ScalarType::F32},
      {"float64", ScalarType::F64},
  };
  for (const JsonObject *level : {&top, &text})
    for (std::string_view key : {"dtype", "torch_dtype"}) {
      if (!level->has(key))
        continue;
      std::optional<std::string> value = level->string(key);
      for (const auto &[name, type] : kNames)
        if (value == name) {
          config.dtype = type;
          return;
        }
      if (value)
        level->mismatch(key, "bfloat16, float16, float32 or float64");
      return;
    }
}

std::optional<ModelConfig> ConfigReader::read() {
  size_t before = problems().count();
  refuseUncomputedKeys();
  readSizes();
  readLayerKinds();
  readAttention(text, config);
  readHead();
  readDtype();
  if (problems().count() != before)
    return std::nullopt;
  return std::move(config);
}

ConfigFile readConfigText(std::string_view content, const std::string &where, Problems &problems) {
  ConfigFile result;
  size_t before = problems.count();
  Expected<json> parsed = parseJson(content, where);
  if (!parsed) {
    problems.add(parsed.error());
    return result;
  }
  if (!parsed->is_object()) {
    problems.add(where + ": expected a JSON object, got " + describe(*parsed));
    return result;
  }
  JsonObject top(*parsed, where, "", problems);
  std::optional<JsonObject> nested = top.object("text_config");
  if (!nested && top.has("text_config"))
    return result;
  const JsonObject &text = nested ? *nested : top;

  ConfigReader reader(top, text);
  if (!reader.checkFamily())
    return result;
  result.model = reader.read();
  result.eosIds = readEosIds(text.has("eos_token_id") ? text : top);
  if (result.eosIds.empty())
    result.eosIds = {1};
  if (problems.count() != before)
    result.model.reset();
  return result;
}

ConfigFile readConfigFile(const std::filesystem::path &path, Problems &problems) {
  Expected<std::string> content = readWholeFile(path, kMaxFileBytes);
  if (!content) {
    problems.add(content.error());
    return {};
  }
  return readConfigText(*content, path.string(), problems);
}

Expected<ModelConfig> readModelConfig(const std::filesystem::path &configFile) {
  Problems problems;
  ConfigFile file = readConfigFile(configFile, problems);
  if (!problems.empty())
    return problems.error();
  return std::move(*file.model);
}

} // namespace gemma
