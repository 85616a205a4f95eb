// Makes weights from tensors as their recipes say.
#pragma once

#include "runtime/abi/Program.h"
#include "runtime/support/Status.h"
#include "runtime/weights/TensorSource.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace gemma {

/// Executes one recipe into `out` (recipe.bytes bytes, zeroed, aligned to 64). Layouts, for a
/// weight [N, K] of W-byte elements:
///
///   panel = 0                [N][K], row-major; also [N]
///   panel = 16, kpack = 1    [ceil(N/16)][K][16]
///   panel = 16, kpack = 2    [ceil(N/16)][ceil(K/2)][16][2]
///   panel = 8, kpack = 64    [ceil(K/64)][ceil(N/8)][8][64], chunk c of 8 elements of row r
///                            at c ^ r
///   i8                       codes [ceil(N/16)][ceil(K/32)][8][16][4], f16 scales after all of
///                            them [ceil(N/16)][ceil(K/32)][16]
///   i4                       codes [ceil(N/16)][ceil(K/32)][4][16][4] bytes, scales likewise
///   interleave = 2           rows [0, N/2) and [N/2, N) are packed by themselves, panel 2j
///                            is panel j of the first half, 2j + 1 of the second
///
/// Places of no row or column are zero: codes 128 or 8, w = 0, in quantised weights (Quantize.h
/// says more of these). Narrowing rounds to nearest, ties to even. Refused if a source is missing,
/// if the sources, one after another, do not have the weight's shape, or if a quantised one has a
/// value that is not finite or beyond quantizedLimit(). Uses `threads` threads.
Status packWeight(const WeightRecipe &recipe, const TensorSource &tensors, int threads,
                  std::span<std::byte> out);

/// Told after each weight: bytes done and of all.
using PackProgress = std::function<void(uint64_t done, uint64_t total)>;

/// Given a packed weight: its offset among all, its bytes up to the next one's.
using WeightSink = std::function<Status(uint64_t offset, std::span<const std::byte> bytes)>;

/// Packs weight by weight, with memory for one at a time, in the order of their places.
Status packWeights(const Program &program, const TensorSource &tensors, int threads,
                   const WeightSink &sink, const PackProgress &progress = {});

/// Where the weights lie, one after another, each on a multiple of 64 bytes.
struct WeightPlaces {
  std::vector<uint64_t> offsets; ///< one a weight
  uint64_t total = 0;            ///< bytes
  /// For each weight, the sources that no later weight uses.
  std::vector<std::vector<std::string>> finished;
};
Expected<WeightPlaces> planWeights(const Program &program);

} // namespace gemma
