// A good configuration, and what a test changes of it.
#pragma once

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/ConfigReader.h"
#include "test/unit/TestFiles.h"

#include <nlohmann/json.hpp>

#include <functional>

namespace gemma::test {

using nlohmann::json;

inline ModelConfig readGood(std::string_view relative) {
  Expected<ModelConfig> config = readModelConfig(sourcePath(relative));
  if (!config) {
    ADD_FAILURE() << config.error().message;
    return {};
  }
  return std::move(*config);
}

/// The configuration of bad/base (valid; nested form, 2 layers) after `edit`, read from a file.
inline Expected<ModelConfig> readEdited(const std::function<void(json &)> &edit) {
  json config = json::parse(readText(sourcePath("test/data/models/bad/base/config.json")));
  edit(config);
  TempFolder folder;
  writeText(folder / "config.json", config.dump());
  return readModelConfig(folder / "config.json");
}

inline Expected<ModelConfig> readEditedText(const std::function<void(json &)> &edit) {
  return readEdited([&](json &config) { edit(config.at("text_config")); });
}

inline ModelConfig base() { return readGood("test/data/models/bad/base/config.json"); }

} // namespace gemma::test
