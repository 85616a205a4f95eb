#include "tools/verify/ModelSource.h"

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/ConfigReader.h"
#include "runtime/support/Json.h"
#include "tools/verify/BundledConfigs.h"
#include "tools/verify/SpecKey.h"

#include <algorithm>
#include <filesystem>

namespace gemma::verify {

static Expected<ModelConfig> parseBundled(std::string_view json, std::string_view key) {
  Problems problems;
  ConfigFile file = readConfigText(json, "the configuration of " + std::string(key), problems);
  if (!problems.empty())
    return internalError(problems.error().message);
  return std::move(*file.model);
}

static Error unknownModel(const std::string &text, const SpecKey &key) {
  std::vector<std::string> keys;
  for (const BundledConfig &config : bundledConfigs())
    keys.emplace_back(config.key);
  std::string message = "no such file, and no model of this key: expected a model key, a "
                        "config.json or a checkpoint folder, got " +
                        quoteForMessage(text, text.size());
  std::string list;
  for (const std::string &name : nearest(key.model, keys))
    list += (list.empty() ? "; did you mean " : ", ") + name;
  return badInput(message + list);
}

Expected<ModelSource> findModel(const std::string &text) {
  std::error_code error;
  if (auto found = std::filesystem::status(text, error); std::filesystem::exists(found)) {
    std::filesystem::path file = text;
    if (std::filesystem::is_directory(found))
      file /= "config.json";
    Expected<ModelConfig> config = readModelConfig(file);
    if (!config)
      return config.status();
    return ModelSource{text, "", *std::move(config), ""};
  }
  SpecKey key = splitSpecKey(text);
  for (const BundledConfig &bundled : bundledConfigs()) {
    if (bundled.key != key.model)
      continue;
    std::string version(bundled.version);
    if (!key.version.empty() && key.version != version && key.version != version + ".0")
      return badInput(key.model + ": expected spec version " + version + ", got " +
                      quoteForMessage(key.version));
    Expected<ModelConfig> config = parseBundled(bundled.json, bundled.key);
    if (!config)
      return config.status();
    return ModelSource{key.model + "@" + version, key.model, *std::move(config), key.nodes};
  }
  return unknownModel(text, key);
}

Expected<ModelConfig> reducedConfig(const ModelConfig &config) {
  std::optional<ModelConfig> best;
  for (const BundledConfig &bundled : bundledConfigs()) {
    Expected<ModelConfig> narrow = parseBundled(bundled.narrow, bundled.key);
    if (!narrow)
      return narrow.status();
    // One key/value head in global layers, or groups of heads: what attention kernels differ in.
    if (!best || (narrow->global.kvHeads == 1) == (config.global.kvHeads == 1))
      best = *std::move(narrow);
  }
  // Sizes of the narrow model, everything else of the real one.
  ModelConfig reduced = config;
  reduced.vocab = best->vocab;
  reduced.hidden = best->hidden;
  reduced.intermediate = best->intermediate;
  reduced.heads = best->heads;
  reduced.maxPositions = std::min(config.maxPositions, best->maxPositions);
  auto shrink = [](AttentionConfig &to, const AttentionConfig &from) {
    int64_t dim = to.headDim;
    to.kvHeads = from.kvHeads;
    to.headDim = from.headDim;
    if (to.window)
      to.window = from.window;
    // The same fractions of a head take part and turn.
    to.rope.rotary = to.rope.rotary * from.headDim / dim;
    to.rope.denominator = to.rope.denominator * from.headDim / dim;
    to.rope.active = std::max<int64_t>(1, to.rope.active * from.headDim / dim);
  };
  shrink(reduced.sliding, best->sliding);
  shrink(reduced.global, best->global);

  size_t most = std::min(config.layerKinds.size(), best->layerKinds.size());
  reduced.layerKinds.resize(most);
  for (LayerKind kind : {LayerKind::Sliding, LayerKind::Global})
    if (std::ranges::count(config.layerKinds, kind) &&
        !std::ranges::count(reduced.layerKinds, kind))
      reduced.layerKinds.back() = kind;
  return reduced;
}

} // namespace gemma::verify
