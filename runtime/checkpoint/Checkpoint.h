// A checkpoint folder (config.json and safetensors files), opened and fully checked.
#pragma once

#include "runtime/checkpoint/GenerationConfig.h"
#include "runtime/checkpoint/ModelConfig.h"
#include "runtime/checkpoint/TensorTable.h"
#include "runtime/support/Status.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gemma {

/// Reads a config.json: nested `text_config` or flat form. All problems are reported in one error
/// (at most 20, then a count), each naming file, key, expected and found value.
Expected<ModelConfig> readModelConfig(const std::filesystem::path &configFile);

/// The tensors that a model of this configuration must bring, with their shapes; TensorInfo's
/// fileName, type, file, offset and bytes are unset.
TensorTable requiredTensors(const ModelConfig &config);

/// One file of a checkpoint, as recorded for later comparison.
struct CheckpointFile {
  std::string name; ///< relative to the folder
  uint64_t size = 0;
  std::string headerHash; ///< XXH3-128 of the safetensors header, 32 hex digits
};

/// An open checkpoint. Tensor data is mapped from the files, read-only, and stays valid as long as
/// the Checkpoint lives. Cheap to move, not copyable.
class Checkpoint {
public:
  /// Opens `folder`, reads the configuration and every header, and checks the whole contract:
  /// every required tensor present once with its shape and a float type, none of the values the
  /// compiler does not compute. All problems come in one error (at most 20, then a count). No
  /// tensor data is read, except where a tied model's file has an lm_head.weight: it must equal the
  /// embedding.
  static Expected<Checkpoint> open(const std::filesystem::path &folder);

  /// As open(), for a configuration known already (an artifact's): the folder's config.json is not
  /// read, its tensors must fit `config`. No generation_config.json either: eosIds() is empty.
  static Expected<Checkpoint> openWeights(const std::filesystem::path &folder,
                                          const ModelConfig &config);

  Checkpoint(Checkpoint &&) noexcept;
  Checkpoint &operator=(Checkpoint &&) noexcept;
  ~Checkpoint();

  const std::filesystem::path &folder() const;
  const ModelConfig &config() const;
  const TensorTable &tensors() const;
  const std::vector<CheckpointFile> &files() const;
  /// Tensors in the files that the text model has no use for (vision, audio).
  uint64_t skippedTensors() const;
  uint64_t skippedBytes() const;
  /// The eos ids: generation_config.json's, else config.json's, else [1]; in the file's order.
  const std::vector<int64_t> &eosIds() const;
  /// What generation_config.json says, if there is one.
  const std::optional<GenerationDefaults> &generation() const;

  /// The bytes of one tensor (not aligned).
  std::span<const std::byte> data(const TensorInfo &tensor) const;
  /// Tells the kernel that the pages of this tensor are not needed any more.
  void dropPages(const TensorInfo &tensor) const;

private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace gemma
