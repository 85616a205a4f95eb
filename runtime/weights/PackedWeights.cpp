#include "runtime/weights/PackedWeights.h"

#include "runtime/abi/ProgramJson.h"
#include "runtime/support/Hash.h"

#include <array>
#include <cstring>

namespace gemma {

static constexpr std::string_view kMagic = "GEMMAWTS";
static constexpr size_t kDigest = 32;
static constexpr size_t kOrigin = 56;
static constexpr size_t kHashedHeader = 88;
static constexpr size_t kPayload = 4096;

static std::string recipeHash(const Program &program) {
  return hashHex(programToJson(program).at("weights").dump());
}

/// Bytes [0, 120) of the file.
static std::string makeHeader(uint64_t payloadBytes, const std::string &recipes,
                              const std::string &origin) {
  std::string header(kMagic);
  auto append = [&](uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
      header.push_back(char(value >> (8 * i)));
  };
  append(packedWeightsVersion, 4);
  append(0, 4);
  append(payloadBytes, 8);
  header += recipes;
  header += origin;
  return header + hashHex(header);
}

Expected<StagedFile> stagePackedWeights(const Program &program, const TensorSource &tensors,
                                        const std::string &origin, int threads,
                                        const std::filesystem::path &path,
                                        const PackProgress &progress) {
  if (origin.size() != kDigest)
    return internalError("packed weights: expected an origin of 32 hex digits");
  Expected<WeightPlaces> places = planWeights(program);
  if (!places)
    return places.status();
  if (Status status = checkRoom(path, kPayload + places->total + kDigest); !status)
    return status.error();
  return StagedFile::write(path, [&](FileWriter &file) -> Status {
    std::string header = makeHeader(places->total, recipeHash(program), origin);
    header.resize(kPayload, '\0');
    if (Status status = file.write(header); !status)
      return status;
    Hasher hasher;
    auto append = [&](uint64_t, std::span<const std::byte> bytes) {
      hasher.update(bytes);
      return file.write(bytes);
    };
    if (Status status = packWeights(program, tensors, threads, append, progress); !status)
      return status;
    return file.write(hasher.digest());
  });
}

Status packWeightsToFile(const Program &program, const TensorSource &tensors,
                         const std::string &origin, int threads, const std::filesystem::path &path,
                         const PackProgress &progress) {
  Expected<StagedFile> staged =
      stagePackedWeights(program, tensors, origin, threads, path, progress);
  return staged ? staged->commit() : staged.status();
}

Expected<WeightArena> mapPackedWeights(const Program &program, const std::filesystem::path &path,
                                       const std::string &origin, bool verifyContent) {
  Expected<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.status();
  std::string where = path.string() + ": ";
  Expected<WeightPlaces> places = planWeights(program);
  if (!places)
    return places.status();
  auto text = [&](size_t offset, size_t count) {
    return std::string(reinterpret_cast<const char *>(file->bytes().data()) + offset, count);
  };
  if (file->size() < kPayload + kDigest || text(0, kMagic.size()) != kMagic)
    return badInput(where + "no packed weights: expected a file that begins with " +
                    std::string(kMagic));
  uint32_t version = 0;
  std::memcpy(&version, file->bytes().data() + 8, sizeof version);
  if (version != packedWeightsVersion)
    return badInput(where + "packed weights of format " + std::to_string(version) +
                    ", this runtime reads " + std::to_string(packedWeightsVersion));
  if (text(kHashedHeader, kDigest) != hashHex(text(0, kHashedHeader)))
    return badInput(where + "the header is damaged: its hash differs");
  if (text(24, kDigest) != recipeHash(program))
    return badInput(where + "packed for another artifact: the weight recipes differ");
  if (!origin.empty() && text(kOrigin, kDigest) != origin)
    return badInput(where + "packed from other weights than the artifact was compiled for");
  uint64_t expected = kPayload + places->total + kDigest;
  if (file->size() != expected)
    return badInput(where + "expected " + std::to_string(expected) + " bytes, got " +
                    std::to_string(file->size()) + " (truncated?)");
  if (verifyContent && hashHex(file->bytes(kPayload, places->total)) !=
                           text(size_t(kPayload + places->total), kDigest))
    return badInput(where + "the weights are damaged: their hash differs");
  return WeightArena::mapped(std::move(*file), kPayload, std::move(*places));
}

} // namespace gemma
