#include "runtime/checkpoint/AttentionReader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace gemma {

using nlohmann::json;

// What the official text configuration has where the file is silent.
static constexpr int64_t kDefaultGlobalHeadDim = 512;
static constexpr RopeConfig kDefaultSlidingRope = {.theta = 1e4};
static constexpr RopeConfig kDefaultGlobalRope = {.theta = 1e6};
static constexpr double kDefaultRotaryFactor = 0.25;

std::string_view layerTypeName(LayerKind kind) {
  return kind == LayerKind::Sliding ? "sliding_attention" : "full_attention";
}

namespace {

/// Head count and width of a layer's keys.
struct HeadSizes {
  int64_t headDim = 0;
  int64_t kvHeads = 0;
  bool operator==(const HeadSizes &) const = default;
};

class AttentionReader {
public:
  AttentionReader(const JsonObject &text, ModelConfig &config) : text(text), config(config) {}

  void read();

private:
  void readHeads();
  void checkPerLayerKeys(const json &perLayer);
  std::optional<HeadSizes> headSizes(int64_t layer, const HeadSizes &sliding,
                                     const HeadSizes &global, const json *perLayer);
  void checkHeads(const AttentionConfig &attention, LayerKind kind);
  void readRope(AttentionConfig &attention, LayerKind kind);
  double readRotaryFactor(const JsonObject &parameters);

  Problems &problems() { return text.problems(); }

  const JsonObject &text;
  ModelConfig &config;
};

} // namespace

/// The layer number that a key of per_layer_config means: digits, "5" or zero-padded "05".
static std::optional<int64_t> layerNumber(const std::string &key) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  bool whole = error == std::errc() && end == key.data() + key.size() && number >= 0;
  return whole ? std::optional(number) : std::nullopt;
}

/// Keys must be layer numbers, each once; values objects whose keys change nothing but head_dim and
/// num_key_value_heads.
void AttentionReader::checkPerLayerKeys(const json &perLayer) {
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

/// The object of `layer` in per_layer_config, or null.
static const json *overridesOf(int64_t layer, const json *perLayer) {
  if (perLayer)
    for (const auto &[key, overrides] : perLayer->items())
      if (layerNumber(key) == layer)
        return overrides.is_object() ? &overrides : nullptr;
  return nullptr;
}

/// Sizes of one layer: per_layer_config's, else those of its kind.
std::optional<HeadSizes> AttentionReader::headSizes(int64_t layer, const HeadSizes &sliding,
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

void AttentionReader::readHeads() {
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

void AttentionReader::checkHeads(const AttentionConfig &attention, LayerKind kind) {
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

/// The part of the head's pairs that turns: from 0 to 1, and 1 where there is a problem.
double AttentionReader::readRotaryFactor(const JsonObject &parameters) {
  std::optional<double> factor = parameters.number("partial_rotary_factor");
  std::string type = "default";
  if (parameters.has("rope_type"))
    type = parameters.string("rope_type").value_or("");
  if (type == "proportional") {
    if (!factor || (*factor >= 0 && *factor <= 1))
      return factor.value_or(1);
    parameters.mismatch("partial_rotary_factor", "a number from 0 to 1");
  } else if (type == "default") {
    // This type turns whole heads whatever the factor says: refuse the doubt.
    if (factor && *factor != 1)
      parameters.mismatch("partial_rotary_factor", "1 or nothing beside rope_type \"default\"");
  } else if (!type.empty()) {
    parameters.mismatch("rope_type", "\"default\" or \"proportional\"");
  }
  return 1;
}

void AttentionReader::readRope(AttentionConfig &attention, LayerKind kind) {
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
    if (!parameters->has("rope_theta"))
      parameters->mismatch("rope_theta", "a positive number");
    else if (std::optional<double> theta = parameters->number("rope_theta")) {
      rope.theta = *theta;
      if (!(rope.theta > 0 && std::isfinite(rope.theta)))
        parameters->mismatch("rope_theta", "a positive number");
    }
    if (parameters->number("factor").value_or(1) != 1)
      parameters->mismatch("factor", "1 (scaled positions are not computed here)");
    factor = readRotaryFactor(*parameters);
  }
  rope.active = int64_t(std::floor(factor * double(attention.headDim) / 2));
}

void AttentionReader::read() {
  readHeads();
  for (LayerKind kind : {LayerKind::Sliding, LayerKind::Global}) {
    if (std::find(config.layerKinds.begin(), config.layerKinds.end(), kind) ==
        config.layerKinds.end())
      continue;
    AttentionConfig &attention = kind == LayerKind::Sliding ? config.sliding : config.global;
    if (kind == LayerKind::Sliding)
      attention.window = text.requiredInteger("sliding_window", {1, kMaxPositions}).value_or(0);
    attention.valuesAreKeys = kind == LayerKind::Global;
    checkHeads(attention, kind);
    readRope(attention, kind);
  }
}

void readAttention(const JsonObject &text, ModelConfig &config) {
  AttentionReader(text, config).read();
}

} // namespace gemma
