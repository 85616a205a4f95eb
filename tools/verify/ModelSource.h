// What the tool is asked about: a model by key, a config.json, or a checkpoint folder.
#pragma once

#include "runtime/checkpoint/ModelConfig.h"
#include "runtime/support/Status.h"

#include <string>

namespace gemma::verify {

struct ModelSource {
  std::string name;   ///< the key, or the path as given
  std::string key;    ///< without the version; empty: a path
  ModelConfig config; ///< checked
  std::string nodes;  ///< what the key says behind its colon; empty: all
};

/// `text`: a path that exists (config.json or a folder with one), else KEY[@VERSION][:NODES]. Of an
/// unknown key the message lists near ones.
Expected<ModelSource> findModel(const std::string &text);

/// The reduced sizes that stand for a model: its layer pattern and constants, with width, heads,
/// dimensions, vocabulary and window of a narrow model: the 12B's if global layers have one
/// key/value head, else the 31B's. No more layers than that has, but both kinds if the model has
/// both.
Expected<ModelConfig> reducedConfig(const ModelConfig &config);

} // namespace gemma::verify
