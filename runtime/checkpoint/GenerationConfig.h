// What generation_config.json says about sampling; the reader of the file.
#pragma once

#include "runtime/support/Json.h"
#include "runtime/support/Problems.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace gemma {

class JsonObject;

/// Values as the file gives them; absent and null keys stay unset.
struct GenerationDefaults {
  std::optional<bool> doSample;
  std::optional<double> temperature; ///< finite, >= 0
  std::optional<int64_t> topK;       ///< >= 0
  std::optional<double> topP;        ///< 0 to 1
  std::optional<double> minP;        ///< 0 to 1
  std::vector<int64_t> eosIds;       ///< in the file's order; empty if the file has none
  std::optional<int64_t> bosId;

  bool operator==(const GenerationDefaults &) const = default;
};

/// Reads `folder`/generation_config.json; nothing if there is no such file.
Expected<std::optional<GenerationDefaults>>
readGenerationDefaults(const std::filesystem::path &folder);

/// eos_token_id of `object`: one id or a list of ids; empty if absent.
std::vector<int64_t> readEosIds(const JsonObject &object);

} // namespace gemma
