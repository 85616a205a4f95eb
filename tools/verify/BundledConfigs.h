// The configurations that the tool knows by name, so that it needs no files.
#pragma once

#include <span>
#include <string_view>

namespace gemma::verify {

struct BundledConfig {
  std::string_view key;     ///< "google/gemma-4-12B"
  std::string_view version; ///< of the spec page: "1.0"
  std::string_view json;    ///< config.json with the published hyperparameters
  std::string_view narrow;  ///< config.json of the same form at reduced sizes
};

std::span<const BundledConfig> bundledConfigs();

} // namespace gemma::verify
