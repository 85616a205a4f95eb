// Checkpoints of random weights.
#pragma once

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/support/Status.h"

#include <filesystem>

namespace gemma::verify {

/// Writes model.safetensors with every tensor of reference::randomTensor(seed, canonical name):
/// bf16, which holds these numbers exactly. `prefix` stands before the canonical names.
Status writeRandomWeights(const std::filesystem::path &folder, const ModelConfig &config,
                          uint64_t seed, const std::string &prefix);

/// A folder under the system's temporary one, removed with all that is in it.
class TemporaryFolder {
public:
  static Expected<TemporaryFolder> make();
  TemporaryFolder(TemporaryFolder &&other) noexcept : folder(std::move(other.folder)) {
    other.folder.clear();
  }
  TemporaryFolder &operator=(TemporaryFolder &&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path &path() const { return folder; }

private:
  explicit TemporaryFolder(std::filesystem::path folder) : folder(std::move(folder)) {}
  std::filesystem::path folder;
};

/// A checkpoint of such weights. Its files are gone already (an open one is mapped), so that none
/// stay behind when the program is interrupted.
Expected<Checkpoint> makeRandomCheckpoint(const ModelConfig &config, uint64_t seed);

} // namespace gemma::verify
