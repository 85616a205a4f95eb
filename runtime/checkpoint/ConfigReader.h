// Reading config.json, with the problems collected by the caller; readModelConfig() in Checkpoint.h
// is the short form.
#pragma once

#include "runtime/checkpoint/ModelConfig.h"
#include "runtime/support/Problems.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gemma {

/// What config.json says.
struct ConfigFile {
  std::optional<ModelConfig> model; ///< unset if the file has a problem
  std::vector<int64_t> eosIds;      ///< eos_token_id of either level; [1], the official default, if
                                    ///< absent
};

/// Reads and checks `path`; every problem is added to `problems`.
ConfigFile readConfigFile(const std::filesystem::path &path, Problems &problems);
/// As above for a text in memory; `where` stands for the file in messages.
ConfigFile readConfigText(std::string_view text, const std::string &where, Problems &problems);

} // namespace gemma
