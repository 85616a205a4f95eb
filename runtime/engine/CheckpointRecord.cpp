// Finding again, at run time, the checkpoint that was there at compile time.
#include "runtime/engine/Model.h"

#include "runtime/support/Hash.h"
#include "runtime/support/MappedFile.h"
#include "runtime/weights/SyntheticTensors.h"

#include <algorithm>

namespace gemma {

/// XXH3-128 of the whole file.
static Expected<std::string> contentHash(const std::filesystem::path &path) {
  Expected<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.status();
  constexpr uint64_t step = uint64_t(64) << 20;
  Hasher hasher;
  file->adviseSequential(0, file->size());
  for (uint64_t at = 0; at < file->size(); at += step) {
    uint64_t count = std::min(step, file->size() - at);
    hasher.update(file->bytes(at, count));
    file->adviseDontNeed(at, count);
  }
  return hasher.digest();
}

Status recordCheckpoint(Artifact &artifact, const Checkpoint &checkpoint, bool content) {
  std::error_code code;
  std::filesystem::path absolute = std::filesystem::weakly_canonical(checkpoint.folder(), code);
  artifact.checkpointFolder = code ? checkpoint.folder().string() : absolute.string();
  artifact.checkpointFiles.clear();
  for (const CheckpointFile &file : checkpoint.files()) {
    RecordedFile record{file.name, file.size, file.headerHash, ""};
    if (content) {
      Expected<std::string> hash = contentHash(checkpoint.folder() / file.name);
      if (!hash)
        return hash.status();
      record.contentHash = *hash;
    }
    artifact.checkpointFiles.push_back(std::move(record));
  }
  return {};
}

std::string weightsOrigin(const Artifact &artifact) {
  if (artifact.syntheticSeed)
    return hashHex("synthetic weights 1, seed " + std::to_string(*artifact.syntheticSeed));
  if (artifact.checkpointFiles.empty())
    return "";
  // However the files are called; sharded in another way, they are other files.
  std::vector<std::string> parts;
  parts.reserve(artifact.checkpointFiles.size());
  for (const RecordedFile &file : artifact.checkpointFiles)
    parts.push_back(file.headerHash + " " + file.contentHash + " " + std::to_string(file.size));
  std::sort(parts.begin(), parts.end());
  std::string text;
  for (const std::string &part : parts)
    text += part + "\n";
  return hashHex(text);
}

/// Compares one file with its record.
static Status checkFile(const Checkpoint &checkpoint, const RecordedFile &record,
                        bool verifyContent) {
  std::string where = (checkpoint.folder() / record.name).string();
  const std::vector<CheckpointFile> &files = checkpoint.files();
  auto found = std::find_if(files.begin(), files.end(),
                            [&](const CheckpointFile &file) { return file.name == record.name; });
  if (found == files.end())
    return badInput(where + ": there at compile time, now no part of the checkpoint");
  if (found->size != record.size)
    return badInput(where + ": changed since compile time: expected " +
                    std::to_string(record.size) + " bytes, got " + std::to_string(found->size) +
                    "; --weights DIR takes another checkpoint");
  if (found->headerHash != record.headerHash)
    return badInput(where + ": changed since compile time: expected header hash " +
                    record.headerHash + ", got " + found->headerHash +
                    "; --weights DIR takes another checkpoint");
  if (!verifyContent)
    return {};
  if (record.contentHash.empty())
    return badInput(where + ": cannot verify its content: the artifact has no hash of it");
  Expected<std::string> hash = contentHash(where);
  if (!hash)
    return hash.status();
  if (*hash != record.contentHash)
    return badInput(where + ": expected content hash " + record.contentHash + ", got " + *hash);
  return {};
}

Expected<Checkpoint> openArtifactWeights(const Artifact &artifact,
                                         const std::filesystem::path &folder, bool verifyContent) {
  bool recorded = folder.empty();
  if (recorded && artifact.checkpointFolder.empty())
    return badInput("the artifact was compiled from a configuration alone: give --weights DIR");
  std::filesystem::path from = recorded ? std::filesystem::path(artifact.checkpointFolder) : folder;
  std::error_code code;
  if (!std::filesystem::is_directory(from, code))
    return badInput(
        from.string() + ": no such folder" +
        (recorded ? ", where the weights were at compile time; give --weights DIR" : ""));
  Expected<Checkpoint> checkpoint = Checkpoint::openWeights(from, artifact.program.config);
  if (!checkpoint)
    return checkpoint.status();
  // Another checkpoint of the same shape is welcome, but only when asked for.
  if (recorded || verifyContent)
    for (const RecordedFile &record : artifact.checkpointFiles)
      if (Status status = checkFile(*checkpoint, record, verifyContent); !status)
        return status;
  if (verifyContent && artifact.checkpointFiles.empty())
    return badInput("cannot verify weights: the artifact records no files");
  return std::move(*checkpoint);
}

Expected<std::shared_ptr<const Model>> loadWithOwnWeights(Artifact artifact,
                                                          const std::filesystem::path &folder,
                                                          bool verifyContent,
                                                          const ModelOptions &options) {
  if (artifact.syntheticSeed && folder.empty()) {
    SyntheticTensors tensors(artifact.program.config, *artifact.syntheticSeed);
    return Model::load(std::move(artifact), tensors, options);
  }
  Expected<Checkpoint> checkpoint = openArtifactWeights(artifact, folder, verifyContent);
  if (!checkpoint)
    return checkpoint.status();
  return Model::load(std::move(artifact), *checkpoint, options);
}

} // namespace gemma
