#include "runtime/checkpoint/GenerationConfig.h"

#include "runtime/support/File.h"
#include "runtime/support/JsonObject.h"

#include <cmath>

namespace gemma {

static constexpr uint64_t kMaxFileBytes = uint64_t(1) << 20;
static constexpr IntegerRange kTokenIds = {0, INT32_MAX};

std::vector<int64_t> readEosIds(const JsonObject &object) {
  static constexpr std::string_view key = "eos_token_id";
  const nlohmann::json *value = object.find(key);
  if (!value)
    return {};
  std::vector<int64_t> ids;
  auto addId = [&](const nlohmann::json &element) {
    std::optional<int64_t> id = asInteger(element);
    if (!id || *id < kTokenIds.min || *id > kTokenIds.max)
      return false;
    ids.push_back(*id);
    return true;
  };
  bool ok = true;
  if (value->is_array())
    for (const nlohmann::json &element : *value)
      ok = ok && addId(element);
  else
    ok = addId(*value);
  if (!ok) {
    object.mismatch(key, "a token id or a list of token ids");
    return {};
  }
  return ids;
}

/// A number in [0, max].
static std::optional<double> numberUpTo(const JsonObject &object, std::string_view key, double max,
                                        std::string_view text) {
  std::optional<double> value = object.number(key);
  if (value && !(*value >= 0 && *value <= max)) {
    object.mismatch(key, text);
    return std::nullopt;
  }
  return value;
}

Expected<std::optional<GenerationDefaults>>
readGenerationDefaults(const std::filesystem::path &folder) {
  std::filesystem::path path = folder / "generation_config.json";
  std::error_code code;
  if (!std::filesystem::exists(path, code))
    return std::optional<GenerationDefaults>();
  Expected<std::string> text = readWholeFile(path, kMaxFileBytes);
  if (!text)
    return text.error();
  Expected<nlohmann::json> parsed = parseJson(*text, path.string());
  if (!parsed)
    return parsed.error();
  if (!parsed->is_object())
    return badInput(path.string() + ": expected a JSON object, got " + describe(*parsed));

  Problems problems;
  JsonObject object(*parsed, path.string(), "", problems);
  GenerationDefaults defaults;
  defaults.doSample = object.boolean("do_sample");
  defaults.temperature = numberUpTo(object, "temperature", 1e6, "a number from 0 to 1e6");
  defaults.topK = object.integer("top_k", {0, INT32_MAX});
  defaults.topP = numberUpTo(object, "top_p", 1, "a number from 0 to 1");
  defaults.minP = numberUpTo(object, "min_p", 1, "a number from 0 to 1");
  defaults.eosIds = readEosIds(object);
  defaults.bosId = object.integer("bos_token_id", kTokenIds);
  if (!problems.empty())
    return problems.error();
  return std::optional<GenerationDefaults>(std::move(defaults));
}

} // namespace gemma
