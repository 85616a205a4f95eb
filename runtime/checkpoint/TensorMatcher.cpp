#include "runtime/checkpoint/TensorMatcher.h"

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Widen.h"
#include "runtime/support/Json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <unordered_map>

namespace gemma {

/// What the official classes put before the text model's names: the full ones, the text-only one.
static constexpr std::array<std::string_view, 2> kPrefixes = {"model.language_model.", "model."};
static constexpr std::string_view kHead = "lm_head.weight"; // has no prefix

namespace {

class TensorMatcher {
public:
  TensorMatcher(const ModelConfig &config, std::span<const SafetensorsFile> shards,
                const std::filesystem::path &folder, Problems &problems)
      : config(config), shards(shards), folder(folder), problems(problems) {}

  MatchedTensors run();

private:
  struct Place {
    uint32_t file;
    const SafetensorsEntry *entry;
  };

  void collectNames();
  void choosePrefix(const TensorTable &required);
  std::string spelled(const std::string &canonical) const {
    return canonical == kHead ? canonical : std::string(prefix) + canonical;
  }
  const Place *find(const std::string &name) const {
    auto it = places.find(name);
    return it == places.end() ? nullptr : &it->second;
  }
  void reportMissing(const std::string &canonical, const TensorInfo &wanted);
  bool bind(const std::string &canonical, TensorInfo &tensor);
  void refuseForeignLayers(std::string_view name);
  void checkTiedHead(const TensorTable &table);
  std::string at(const Place &place) const {
    return shards[place.file].path().string() + ": tensor " + quoteForMessage(place.entry->name);
  }

  const ModelConfig &config;
  std::span<const SafetensorsFile> shards;
  const std::filesystem::path &folder;
  Problems &problems;
  std::unordered_map<std::string_view, Place> places;
  std::string_view prefix;
};

} // namespace

void TensorMatcher::collectNames() {
  for (uint32_t file = 0; file < shards.size(); ++file)
    for (const SafetensorsEntry &entry : shards[file].entries()) {
      auto [it, inserted] = places.try_emplace(entry.name, Place{file, &entry});
      if (!inserted)
        problems.add(at({file, &entry}) + ": expected each tensor in one file, got it in " +
                     shards[it->second.file].path().filename().string() + " too");
    }
}

/// The prefix under which more of the required names are found; one must hold for the whole model.
void TensorMatcher::choosePrefix(const TensorTable &required) {
  size_t best = 0;
  prefix = kPrefixes.front();
  for (std::string_view candidate : kPrefixes) {
    size_t found = 0;
    for (const auto &[canonical, tensor] : required)
      found += places.contains(std::string(candidate) + canonical);
    if (found > best) {
      best = found;
      prefix = candidate;
    }
  }
}

void TensorMatcher::reportMissing(const std::string &canonical, const TensorInfo &wanted) {
  std::string line = (shards.size() == 1 ? shards.front().path() : folder).string() + ": tensor " +
                     quoteForMessage(spelled(canonical)) + ": expected shape " +
                     shapeText(wanted.shape) + ", got no such tensor";
  if (canonical == kHead)
    line += " (needed as tie_word_embeddings is false)";
  for (std::string_view other : kPrefixes)
    if (other != prefix && canonical != kHead && places.contains(std::string(other) + canonical))
      line += " (but one with the prefix " + std::string(other) + ", unlike the others)";
  problems.add(std::move(line));
}

/// Checks and fills in one required tensor; false if there is a problem.
bool TensorMatcher::bind(const std::string &canonical, TensorInfo &tensor) {
  const Place *place = find(spelled(canonical));
  if (!place) {
    reportMissing(canonical, tensor);
    return false;
  }
  const SafetensorsEntry &entry = *place->entry;
  bool good = true;
  if (!entry.type || !isFloat(*entry.type)) {
    problems.add(at(*place) + ": expected type F64, F32, BF16 or F16, got " + entry.dtype);
    good = false;
  }
  if (entry.shape != tensor.shape) {
    problems.add(at(*place) + ": expected shape " + shapeText(tensor.shape) + ", got " +
                 shapeText(entry.shape));
    good = false;
  }
  if (!good)
    return false;
  tensor.fileName = entry.name;
  tensor.type = *entry.type;
  tensor.file = place->file;
  tensor.offset = entry.offset;
  tensor.bytes = entry.bytes;
  return true;
}

/// A tensor of the text model that stands for a computation this project does not do: leaving it
/// out would give wrong numbers, whatever the configuration says.
void TensorMatcher::refuseForeignLayers(std::string_view name) {
  if (!name.starts_with(prefix))
    return;
  std::string_view rest = name.substr(prefix.size());
  bool decoder = rest.starts_with("layers.");
  bool foreign =
      rest.starts_with("embed_tokens_per_layer") ||
      rest.starts_with("per_layer_model_projection") ||
      (decoder && (rest.find(".per_layer_") != rest.npos || rest.find(".experts.") != rest.npos ||
                   rest.find(".router.") != rest.npos || rest.ends_with(".bias")));
  if (foreign)
    problems.add(at(*find(std::string(name))) +
                 ": expected no per-layer inputs, experts or biases (they are not computed here)");
}

/// Whether two tensors of equal shape hold equal values; `at` gets the first differing element.
static bool equalValues(ScalarType leftType, std::span<const std::byte> left, ScalarType rightType,
                        std::span<const std::byte> right, uint64_t &at) {
  constexpr size_t block = 4096; // elements; bounded memory however large the tensors
  std::array<double, block> a, b;
  const size_t width = byteWidth(leftType);
  const size_t count = left.size() / width;
  for (size_t begin = 0; begin < count; begin += block) {
    size_t n = std::min(block, count - begin);
    if (leftType == rightType &&
        std::memcmp(left.data() + begin * width, right.data() + begin * width, n * width) == 0)
      continue;
    widen(leftType, left, begin, std::span(a).first(n));
    widen(rightType, right, begin, std::span(b).first(n));
    for (size_t i = 0; i < n; ++i)
      if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) {
        at = begin + i;
        return false;
      }
  }
  return true;
}

/// A tied model's file may hold the head too, if it is the embedding once more.
void TensorMatcher::checkTiedHead(const TensorTable &table) {
  const Place *head = find(std::string(kHead));
  if (!config.tiedHead || !head)
    return;
  const TensorInfo &embedding = table.at("embed_tokens.weight");
  const SafetensorsEntry &entry = *head->entry;
  if (embedding.fileName.empty())
    return; // reported
  uint64_t element = 0;
  std::string difference;
  if (!entry.type || !isFloat(*entry.type) || entry.shape != embedding.shape)
    difference = entry.dtype + " " + shapeText(entry.shape);
  else if (!equalValues(*entry.type, shards[head->file].data(entry), embedding.type,
                        shards[embedding.file].file().bytes(embedding.offset, embedding.bytes),
                        element))
    difference = "another value at element " + std::to_string(element);
  if (!difference.empty())
    problems.add(at(*head) + ": expected the same values as " +
                 quoteForMessage(embedding.fileName) + " (tie_word_embeddings is true), got " +
                 difference);
}

MatchedTensors TensorMatcher::run() {
  MatchedTensors result;
  result.table = requiredTensors(config);
  collectNames();
  choosePrefix(result.table);
  uint64_t boundTensors = 0, boundBytes = 0;
  for (auto &[canonical, tensor] : result.table)
    if (bind(canonical, tensor)) {
      ++boundTensors;
      boundBytes += tensor.bytes;
    }
  checkTiedHead(result.table);
  for (const SafetensorsFile &shard : shards)
    for (const SafetensorsEntry &entry : shard.entries()) {
      refuseForeignLayers(entry.name);
      ++result.skippedTensors;
      result.skippedBytes += entry.bytes;
    }
  result.skippedTensors -= boundTensors;
  result.skippedBytes -= boundBytes;
  return result;
}

MatchedTensors matchTensors(const ModelConfig &config, std::span<const SafetensorsFile> shards,
                            const std::filesystem::path &folder, Problems &problems) {
  return TensorMatcher(config, shards, folder, problems).run();
}

} // namespace gemma
