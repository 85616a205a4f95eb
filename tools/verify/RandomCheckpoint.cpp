#include "tools/verify/RandomCheckpoint.h"

#include "reference/Weights.h"
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/support/BFloat16.h"

#include <cstdlib>
#include <cstring>

namespace gemma::verify {

static Status writeRandom(FileWriter &out, uint64_t seed, const std::string &name,
                          const std::vector<int64_t> &shape) {
  reference::Tensor tensor = reference::randomTensor(seed, name, shape);
  std::vector<uint16_t> bits(tensor.data.size());
  for (size_t i = 0; i < bits.size(); ++i)
    bits[i] = f32ToBf16(float(tensor.data[i]));
  return out.write(std::as_bytes(std::span(bits)));
}

Status writeRandomWeights(const std::filesystem::path &folder, const ModelConfig &config,
                          uint64_t seed, const std::string &prefix) {
  SafetensorsWriter writer;
  for (const auto &[name, tensor] : requiredTensors(config))
    // The head of an untied model stands outside of the model proper.
    writer.add(name.starts_with("lm_head") ? name : prefix + name, ScalarType::BF16, tensor.shape,
               [seed, name = name, shape = tensor.shape](FileWriter &out) {
                 return writeRandom(out, seed, name, shape);
               });
  writer.setMetadata("format", "pt");
  return writer.write(folder / "model.safetensors");
}

Expected<TemporaryFolder> TemporaryFolder::make() {
  std::error_code error;
  std::filesystem::path base = std::filesystem::temp_directory_path(error);
  if (error)
    return badInput("temporary folder: " + error.message());
  std::string pattern = (base / "gemma-verify-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    return badInput(pattern + ": cannot be made: " + std::strerror(errno));
  return TemporaryFolder(pattern);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored; // nothing to be done about it here
  if (!folder.empty())
    std::filesystem::remove_all(folder, ignored);
}

Expected<Checkpoint> makeRandomCheckpoint(const ModelConfig &config, uint64_t seed) {
  Expected<TemporaryFolder> folder = TemporaryFolder::make();
  if (!folder)
    return folder.status();
  if (Status written = writeRandomWeights(folder->path(), config, seed, "model."); !written)
    return written;
  return Checkpoint::openWeights(folder->path(), config);
}

} // namespace gemma::verify
