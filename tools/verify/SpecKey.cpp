#include "tools/verify/SpecKey.h"

#include "runtime/support/Json.h"

#include <algorithm>
#include <charconv>
#include <numeric>

namespace gemma::verify {

std::pair<int64_t, std::string_view> splitNodeKey(std::string_view key) {
  constexpr std::string_view prefix = "layers[";
  size_t close = key.find("].");
  if (!key.starts_with(prefix) || close == key.npos)
    return {-1, key};
  int64_t layer = -1;
  std::from_chars(key.data() + prefix.size(), key.data() + close, layer);
  return {layer, key.substr(close + 2)};
}

/// `name` itself, or what lies below it: mlp matches mlp.down.
static bool isOrContains(std::string_view name, std::string_view node) {
  return node == name ||
         (node.size() > name.size() && node.starts_with(name) && node[name.size()] == '.');
}

bool NodePattern::matches(std::string_view key) const {
  auto [layer, name] = splitNodeKey(key);
  if (inLayers != (layer >= 0))
    return false;
  if (inLayers && (layer < first || layer > last))
    return false;
  return node.empty() || isOrContains(node, name);
}

SpecKey splitSpecKey(std::string_view text) {
  SpecKey key;
  std::string_view model = text.substr(0, text.find(':'));
  if (model.size() < text.size())
    key.nodes = text.substr(model.size() + 1);
  size_t at = model.find('@');
  key.model = model.substr(0, at);
  if (at != model.npos)
    key.version = model.substr(at + 1);
  return key;
}

/// A layer number that is all of `text`.
static bool readLayer(std::string_view text, int64_t &value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

Expected<NodePattern> parseNodePattern(std::string_view text) {
  auto refuse = [&] {
    return badInput("spec key: expected a node such as embed, layers[3].attn.core, "
                    "layers[*].mlp.down, layers[0-5], got " +
                    quoteForMessage(text));
  };
  NodePattern pattern;
  constexpr std::string_view prefix = "layers[";
  if (!text.starts_with(prefix)) {
    if (text.empty() || text.find_first_of("[]:@ ") != text.npos)
      return refuse();
    // The names of nodes outside of layers are few and belong to the spec.
    pattern.inLayers = text != "embed" && text != "final_norm" && text != "lm_head";
    pattern.node = text;
    return pattern;
  }
  pattern.inLayers = true;
  size_t close = text.find(']');
  if (close == text.npos)
    return refuse();
  std::string_view layers = text.substr(prefix.size(), close - prefix.size());
  std::string_view rest = text.substr(close + 1);
  if (!rest.empty()) {
    if (rest.size() < 2 || rest[0] != '.' || rest.find_first_of("[]:@ ") != rest.npos)
      return refuse();
    pattern.node = rest.substr(1);
  }
  if (layers == "*")
    return pattern;
  size_t dash = layers.find('-'), dots = layers.find("..");
  size_t split = std::min(dash, dots);
  if (split == layers.npos) {
    if (!readLayer(layers, pattern.first))
      return refuse();
    pattern.last = pattern.first;
    return pattern;
  }
  if (!readLayer(layers.substr(0, split), pattern.first) ||
      !readLayer(layers.substr(split + (split == dots ? 2 : 1)), pattern.last) ||
      pattern.last < pattern.first)
    return refuse();
  return pattern;
}

/// Insertions, deletions and replacements from `a` to `b`.
static size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> nearest(std::string_view text, const std::vector<std::string> &names,
                                 size_t most) {
  text = text.substr(0, 200); // quadratic, and a longer key is no key
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string &name : names)
    if (size_t distance = editDistance(text, name); distance < std::max(text.size(), name.size()))
      ranked.emplace_back(distance, name);
  std::ranges::sort(ranked);
  std::vector<std::string> result;
  for (const auto &[distance, name] : ranked) {
    if (result.size() == most)
      break;
    result.push_back(name);
  }
  return result;
}

} // namespace gemma::verify
