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

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/GenerationConfig.h"
#include "runtime/support/File.h"
#include "runtime/support/JsonObject.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace gemma {

using nlohmann::json;

static constexpr uint64_t kMaxFileBytes = uint64_t(16) << 20;

// Bounds that keep every later product (elements and bytes of a tensor, their sum over a model) far
// inside 64 bits; 8 to 500 times what the published models have.
static constexpr int64_t kMaxLayers = 1024;
static constexpr int64_t kMaxWidth = int64_t(1) << 20;
static constexpr int64_t kMaxVocab = int64_t(1) << 24;
static constexpr int64_t kMaxHeads = 1 << 14;
static constexpr int64_t kMaxHeadDim = 1 << 14;
static constexpr int64_t kMaxPositions = int64_t(1) << 31;

// What the official text configuration has where the file is silent.
static constexpr int64_t kDefaultGlobalHeadDim = 512;
static constexpr int64_t kDefaultMaxPositions = 262144;
static constexpr double kDefaultRmsEps = 1e-6;
static constexpr int64_t kGlobalEvery = 6;
static constexpr RopeConfig kDefaultSlidingRope = {.theta = 1e4};
static constexpr RopeConfig kDefaultGlobalRope = {.theta = 1e6};
static constexpr double kDefaultRotaryFactor = 0.25;

static std::string_view layerTypeName(LayerKind kind) {
  return kind == LayerKind::Sliding ? "sliding_attention" : "full_attention";
}

namespace {

/// Head count and width of a layer's keys.
struct HeadSizes {
  int64_t headDim = 0;
  int64_t kvHeads = 0;
  bool operator==(const HeadSizes &) const = default;
};

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
  void readHeads();
  std::optional<HeadSizes> headSizes(int64_t layer, const HeadSizes &sliding,
                                     const HeadSizes &global, const json *perLayer);
  const json *overridesOf(int64_t layer, const json *perLayer);
  void checkPerLayerKeys(const json &perLayer);
  void checkHeads(AttentionConfig &attention, LayerKind kind);
  void readRope(AttentionConfig &attention, LayerKind kind);
  void readHead();
  void readDtype();

  bool uses(LayerKind kind) const {
    return std::find(config.layerKinds.begin(), config.layerKinds.end(), kind) !=
           config.layerKinds.end();
  }
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

/// The layer number that a key of per_layer_config means: digits, "5" or zero-padded "05".
static std::optional<int64_t> layerNumber(const std::string &key) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  bool whole = error == std::errc() && end == key.data() + key.size() && number >= 0;
  return whole ? std::optional(number) : std::nullopt;
}

/// Keys must be layer numbers, each once; values objects whose keys change nothing but head_dim and
/// num_key_value_heads.
void ConfigReader::checkPerLayerKeys(const json &perLayer) {
  std::vector<bool> seen(size_t(config.layers()));
  for (const auto &[key, overrides] : perLayer.items()) {
    std::string place = text.place("per_layer_config") + "." + quoteForMessage(key);
    std::optional<int64_t> layer = layerNumber(key);
    if (!layer || *layer >= config.layers()) {
      problems().add(place + ": expected a layer number below " + std::to_string(config.layers()) +
                     " as key");
      continue;
    }
    if (seen[size_t(*layer)])
      problems().add(place + ": expected each layer once, got layer " + std::to_string(*layer) +
                     " again");
    seen[size_t(*layer)] = true;
    if (!overrides.is_object()) {
      problems().add(place + ": expected an object, got " + describe(overrides));
      continue;
    }
    for (const auto &[name, value] : overrides.items()) {
      if (name == "head_dim" || name == "num_key_value_heads")
        continue;
      const json *common = text.find(name);
      if (!value.is_null() && !(common && *common == value))
        problems().add(place + "." + quoteForMessage(name) + ": expected " +
                       (common ? describe(*common) + " as in all layers" : "no such key") +
                       ", got " + describe(value));
    }
  }
}

const json *ConfigReader::overridesOf(int64_t layer, const json *perLayer) {
  if (perLayer)
    for (const auto &[key, overrides] : perLayer->items())
      if (layerNumber(key) == layer)
        return overrides.is_object() ? &overrides : nullptr;
  return nullptr;
}

/// Sizes of one layer: per_layer_config's, else those of its kind.
std::optional<HeadSizes> ConfigReader::headSizes(int64_t layer, const HeadSizes &sliding,
                                                 const HeadSizes &global, const json *perLayer) {
  HeadSizes sizes = config.layerKinds[size_t(layer)] == LayerKind::Sliding ? sliding : global;
  const json *overrides = overridesOf(layer, perLayer);
  if (!overrides)
    return sizes;
  // Problems of this object are placed under the layer's number.
  Problems local;
  JsonObject object(*overrides, text.place("per_layer_config"), std::to_string(layer), local);
  std::optional<int64_t> headDim = object.integer("head_dim", {1, kMaxHeadDim});
  std::optional<int64_t> kvHeads = object.integer("num_key_value_heads", {1, kMaxHeads});
  if (!local.empty()) {
    problems().add(local.error());
    return std::nullopt;
  }
  return HeadSizes{headDim.value_or(sizes.headDim), kvHeads.value_or(sizes.kvHeads)};
}

void ConfigReader::readHeads() {
  size_t before = problems().count();
  HeadSizes sliding, global;
  sliding.headDim = text.requiredInteger("head_dim", {1, kMaxHeadDim}).value_or(0);
  sliding.kvHeads = text.requiredInteger("num_key_value_heads", {1, kMaxHeads}).value_or(0);
  std::optional<int64_t> globalHeadDim = text.integer("global_head_dim", {1, kMaxHeadDim});
  std::optional<int64_t> globalKvHeads = text.integer("num_global_key_value_heads", {1, kMaxHeads});
  std::optional<JsonObject> perLayer = text.object("per_layer_config");
  // With per_layer_config the official class takes head_dim where a layer is not named in it.
  global.headDim = globalHeadDim.value_or(perLayer ? sliding.headDim : kDefaultGlobalHeadDim);
  global.kvHeads = globalKvHeads.value_or(sliding.kvHeads);
  if (perLayer)
    checkPerLayerKeys(perLayer->value());
  if (problems().count() != before || config.layerKinds.empty())
    return;

  // One set of kernels serves all layers of a kind, so their sizes must agree.
  std::array<std::optional<int64_t>, 2> first; // the first layer of each kind
  for (int64_t layer = 0; layer < config.layers(); ++layer) {
    LayerKind kind = config.layerKinds[size_t(layer)];
    std::optional<HeadSizes> sizes =
        headSizes(layer, sliding, global, perLayer ? &perLayer->value() : nullptr);
    if (!sizes)
      return;
    AttentionConfig &attention = kind == LayerKind::Sliding ? config.sliding : config.global;
    std::optional<int64_t> &firstOfKind = first[size_t(kind)];
    if (!firstOfKind) {
      firstOfKind = layer;
      attention.headDim = sizes->headDim;
      attention.kvHeads = sizes->kvHeads;
    } else if (*sizes != HeadSizes{attention.headDim, attention.kvHeads}) {
      problems().add(
          text.place("per_layer_config") + ": expected the same sizes in all " +
          std::string(layerTypeName(kind)) + " layers (" + std::to_string(attention.kvHeads) +
          " KV heads of " + std::to_string(attention.headDim) + " as in layer " +
          std::to_string(*firstOfKind) + "), got " + std::to_string(sizes->kvHeads) + " of " +
          std::to_string(sizes->headDim) + " in layer " + std::to_string(layer));
      return;
    }
  }
  // Both forms at once must say the same.
  if (first[size_t(LayerKind::Global)]) {
    if (globalHeadDim && *globalHeadDim != config.global.headDim)
      text.mismatch("global_head_dim",
                    std::to_string(config.global.headDim) + " as in per_layer_config");
    if (globalKvHeads && *globalKvHeads != config.global.kvHeads)
      text.mismatch("num_global_key_value_heads",
                    std::to_string(config.global.kvHeads) + " as in per_layer_config");
  }
}

void ConfigReader::checkHeads(AttentionConfig &attention, LayerKind kind) {
  std::string of = " of " + std::string(layerTypeName(kind)) + " layers";
  if (attention.headDim == 0 || config.heads == 0)
    return; // reported
  if (attention.headDim % 2 != 0)
    problems().add(text.place("head_dim") + ": expected an even head dimension" + of + ", got " +
                   std::to_string(attention.headDim));
  if (config.heads % attention.kvHeads != 0)
    problems().add(text.place("num_key_value_heads") + ": expected a divisor of the " +
                   std::to_string(config.heads) + " query heads" + of + ", got " +
                   std::to_string(attention.kvHeads));
  if (config.heads * attention.headDim > kMaxWidth)
    problems().add(text.place("num_attention_heads") + ": expected heads times head dimension" +
                   of + " at most " + std::to_string(kMaxWidth) + ", got " +
                   std::to_string(config.heads * attention.headDim));
}

void ConfigReader::readRope(AttentionConfig &attention, LayerKind kind) {
  const bool sliding = kind == LayerKind::Sliding;
  RopeConfig &rope = attention.rope;
  rope = sliding ? kDefaultSlidingRope : kDefaultGlobalRope;
  rope.rotary = rope.denominator = attention.headDim;
  double factor = sliding ? 1 : kDefaultRotaryFactor;

  if (text.has("rope_parameters")) {
    std::optional<JsonObject> all = text.object("rope_parameters");
    if (!all)
      return;
    std::string key(layerTypeName(kind));
    if (!all->has(key))
      return all->mismatch(key, "an object");
    std::optional<JsonObject> parameters = all->object(key);
    if (!parameters)
      return;
    std::optional<std::string> type = parameters->string("rope_type");
    bool proportional = type == "proportional";
    if (type && !proportional && *type != "default")
      parameters->mismatch("rope_type", "\"default\" or \"proportional\"");
    if (!parameters->has("rope_theta"))
      parameters->mismatch("rope_theta", "a positive number");
    else if (std::optional<double> theta = parameters->number("rope_theta")) {
      rope.theta = *theta;
      if (!(rope.theta > 0 && std::isfinite(rope.theta)))
        parameters->mismatch("rope_theta", "a positive number");
    }
    factor = parameters->number("partial_rotary_factor").value_or(1);
    if (proportional && !(factor >= 0 && factor <= 1))
      parameters->mismatch("partial_rotary_factor", "a number from 0 to 1");
    // rope_type default turns whole heads whatever partial_rotary_factor says: refuse the doubt.
    if (!proportional && factor != 1)
      parameters->mismatch("partial_rotary_factor", "1 or nothing beside rope_type \"default\"");
    if (parameters->number("factor").value_or(1) != 1)
      parameters->mismatch("factor", "1 (scaled positions are not computed here)");
    if (!(factor >= 0 && factor <= 1))
      return;
  }
  rope.active = int64_t(std::floor(factor * double(attention.headDim) / 2));
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
  readHeads();
  for (LayerKind kind : {LayerKind::Sliding, LayerKind::Global}) {
    if (!uses(kind))
      continue; // what no layer has stays zero: equal models compare equal
    AttentionConfig &attention = kind == LayerKind::Sliding ? config.sliding : config.global;
    if (kind == LayerKind::Sliding)
      attention.window = text.requiredInteger("sliding_window", {1, kMaxPositions}).value_or(0);
    attention.valuesAreKeys = kind == LayerKind::Global;
    checkHeads(attention, kind);
    readRope(attention, kind);
  }
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
