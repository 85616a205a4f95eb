#include "runtime/checkpoint/Checkpoint.h"

#include "runtime/checkpoint/ConfigReader.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/Shards.h"
#include "runtime/checkpoint/TensorMatcher.h"

namespace gemma {

struct Checkpoint::Impl {
  std::filesystem::path folder;
  ModelConfig config;
  TensorTable tensors;
  std::vector<CheckpointFile> files;
  std::vector<SafetensorsFile> shards; ///< one a file
  uint64_t skippedTensors = 0;
  uint64_t skippedBytes = 0;
  std::vector<int64_t> eosIds;
  std::optional<GenerationDefaults> generation;

  /// Opens the safetensors files and, if the model is known, finds its tensors in them.
  void openFiles(const std::optional<ModelConfig> &model, Problems &problems);
};

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Checkpoint::Checkpoint(Checkpoint &&) noexcept = default;
Checkpoint &Checkpoint::operator=(Checkpoint &&) noexcept = default;
Checkpoint::~Checkpoint() = default;

void Checkpoint::Impl::openFiles(const std::optional<ModelConfig> &model, Problems &problems) {
  size_t before = problems.count();
  std::vector<std::string> names = listShards(folder, problems);
  if (problems.count() != before)
    return;
  for (const std::string &name : names) {
    Expected<SafetensorsFile> shard = SafetensorsFile::open(folder / name);
    if (!shard) {
      problems.add(shard.error());
      continue;
    }
    files.push_back({name, shard->size(), shard->headerHash()});
    shards.push_back(std::move(*shard));
  }
  // With a file unread every tensor in it would be reported as missing too.
  if (!model || problems.count() != before)
    return;
  MatchedTensors matched = matchTensors(*model, shards, folder, problems);
  tensors = std::move(matched.table);
  skippedTensors = matched.skippedTensors;
  skippedBytes = matched.skippedBytes;
}

/// What is wrong with `folder` itself.
static Status checkFolder(const std::filesystem::path &folder) {
  std::error_code code;
  if (!std::filesystem::exists(folder, code))
    return badInput(folder.string() + ": no such folder");
  if (!std::filesystem::is_directory(folder, code))
    return badInput(folder.string() + ": expected a checkpoint folder, got a file");
  return {};
}

Expected<Checkpoint> Checkpoint::open(const std::filesystem::path &folder) {
  if (Status status = checkFolder(folder); !status)
    return status;
  Problems problems;
  ConfigFile file = readConfigFile(folder / "config.json", problems);
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  impl->openFiles(file.model, problems);
  Expected<std::optional<GenerationDefaults>> generation = readGenerationDefaults(folder);
  if (!generation)
    problems.add(generation.error());
  if (!problems.empty())
    return problems.error();

  impl->config = std::move(*file.model);
  impl->generation = std::move(*generation);
  impl->eosIds = impl->generation && !impl->generation->eosIds.empty() ? impl->generation->eosIds
                                                                       : std::move(file.eosIds);
  return Checkpoint(std::move(impl));
}

Expected<Checkpoint> Checkpoint::openWeights(const std::filesystem::path &folder,
                                             const ModelConfig &config) {
  if (Status status = checkFolder(folder); !status)
    return status;
  Problems problems;
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  impl->config = config;
  impl->openFiles(config, problems);
  if (!problems.empty())
    return problems.error();
  return Checkpoint(std::move(impl));
}

const std::filesystem::path &Checkpoint::folder() const { return impl->folder; }
const ModelConfig &Checkpoint::config() const { return impl->config; }
const TensorTable &Checkpoint::tensors() const { return impl->tensors; }
const std::vector<CheckpointFile> &Checkpoint::files() const { return impl->files; }
uint64_t Checkpoint::skippedTensors() const { return impl->skippedTensors; }
uint64_t Checkpoint::skippedBytes() const { return impl->skippedBytes; }
const std::vector<int64_t> &Checkpoint::eosIds() const { return impl->eosIds; }
const std::optional<GenerationDefaults> &Checkpoint::generation() const { return impl->generation; }

std::span<const std::byte> Checkpoint::data(const TensorInfo &tensor) const {
  return impl->shards[tensor.file].file().bytes(tensor.offset, tensor.bytes);
}

void Checkpoint::dropPages(const TensorInfo &tensor) const {
  impl->shards[tensor.file].file().adviseDontNeed(tensor.offset, tensor.bytes);
}

} // namespace gemma
