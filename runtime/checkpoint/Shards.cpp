#include "runtime/checkpoint/Shards.h"

#include "runtime/support/File.h"
#include "runtime/support/JsonObject.h"

#include <set>

namespace gemma {

static constexpr uint64_t kMaxIndexBytes = uint64_t(64) << 20;
static constexpr size_t kMaxShards = 4096;

/// Whether `name` can only mean a file in the folder itself.
static bool isPlainFileName(const std::string &name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

static void addShardNames(const JsonObject &index, std::set<std::string> &names) {
  std::optional<JsonObject> map = index.object("weight_map");
  if (!map) {
    if (!index.has("weight_map"))
      index.mismatch("weight_map", "an object");
    return;
  }
  std::set<std::string> reported; // one wrong file name usually stands for many tensors
  for (const auto &[tensor, file] : map->value().items()) {
    if (file.is_string() && isPlainFileName(file.get_ref<const std::string &>())) {
      names.insert(file.get<std::string>());
    } else if (reported.insert(describe(file)).second) {
      index.problems().add(index.place("weight_map") + "." + quoteForMessage(tensor) +
                           ": expected the name of a file in this folder, got " + describe(file));
    }
  }
  if (map->value().empty())
    index.mismatch("weight_map", "at least one tensor");
}

std::vector<std::string> listShards(const std::filesystem::path &folder, Problems &problems) {
  static const std::string single = "model.safetensors";
  std::error_code code;
  if (std::filesystem::exists(folder / single, code))
    return {single};
  std::filesystem::path path = folder / "model.safetensors.index.json";
  if (!std::filesystem::exists(path, code)) {
    problems.add(folder.string() +
                 ": expected model.safetensors or model.safetensors.index.json, got neither");
    return {};
  }
  Expected<std::string> text = readWholeFile(path, kMaxIndexBytes);
  if (!text) {
    problems.add(text.error());
    return {};
  }
  Expected<nlohmann::json> parsed = parseJson(*text, path.string());
  if (!parsed) {
    problems.add(parsed.error());
    return {};
  }
  if (!parsed->is_object()) {
    problems.add(path.string() + ": expected a JSON object, got " + describe(*parsed));
    return {};
  }
  std::set<std::string> names;
  addShardNames(JsonObject(*parsed, path.string(), "", problems), names);
  if (names.size() > kMaxShards) {
    problems.add(path.string() + ": expected at most " + std::to_string(kMaxShards) +
                 " files, got " + std::to_string(names.size()));
    return {};
  }
  for (const std::string &name : names)
    if (!std::filesystem::exists(folder / name, code))
      problems.add((folder / name).string() + ": no such file, but " + path.filename().string() +
                   " names it");
  return {names.begin(), names.end()};
}

} // namespace gemma
