// Matching what the model needs with what the files hold.
#pragma once

#include "runtime/checkpoint/ModelConfig.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/TensorTable.h"
#include "runtime/support/Problems.h"

#include <span>

namespace gemma {

struct MatchedTensors {
  TensorTable table; ///< complete if no problem was added
  uint64_t skippedTensors = 0;
  uint64_t skippedBytes = 0;
};

/// Finds every required tensor of `config` in `shards` and checks type and shape; counts the rest.
/// `folder` is for messages. Problems are added to `problems`.
MatchedTensors matchTensors(const ModelConfig &config, std::span<const SafetensorsFile> shards,
                            const std::filesystem::path &folder, Problems &problems);

} // namespace gemma
