// Weights packed ahead into a file that is mapped: nothing is packed at load, and processes share
// the pages.
//
// Byte layout, integers little-endian:
//
//   0     8   magic "GEMMAWTS"
//   8     4   format version
//   12    4   zero
//   16    8   n, bytes of the payload
//   24    32  XXH3-128 of the recipes (as the artifact's manifest spells them), hex digits
//   56    32  what the weights were made of (weightsOrigin() of runtime/engine/Model.h), hex digits
//   88    32  XXH3-128 of bytes [0, 88), hex digits
//   120       zero up to 4096
//   4096  n   payload: the weights one after another, each on a multiple of 64
//   ..    32  XXH3-128 of the payload, hex digits
#pragma once

#include "runtime/support/File.h"
#include "runtime/weights/WeightArena.h"

#include <filesystem>

namespace gemma {

inline constexpr uint32_t packedWeightsVersion = 2;

/// Packs weight by weight into a file that is to become `path`; memory for one weight at a time.
/// `origin`: 32 hex digits. Refused before anything is packed if the disk has no room.
Expected<StagedFile> stagePackedWeights(const Program &program, const TensorSource &tensors,
                                        const std::string &origin, int threads,
                                        const std::filesystem::path &path,
                                        const PackProgress &progress = {});
/// The same, and it becomes `path`.
Status packWeightsToFile(const Program &program, const TensorSource &tensors,
                         const std::string &origin, int threads, const std::filesystem::path &path,
                         const PackProgress &progress = {});

/// Maps a packed file. Refused by name: another format or version, a damaged header, a size that
/// does not fit, weights packed by other recipes or, unless `origin` is empty, of another origin;
/// with `verifyContent` also a damaged payload. Without it nothing but the first page is read.
Expected<WeightArena> mapPackedWeights(const Program &program, const std::filesystem::path &path,
                                       const std::string &origin, bool verifyContent);

} // namespace gemma
