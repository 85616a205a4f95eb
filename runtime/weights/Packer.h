// Makes weights from a checkpoint as their recipes say.
#pragma once

#include "runtime/abi/Program.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/support/MappedFile.h"
#include "runtime/support/Memory.h"
#include "runtime/support/Status.h"

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
///   panel = 8, kpack = 64    [ceil(K/64)][ceil(N/8)][8][64], chunk c of 8 elements of row r at c ^
///   r interleave = 2           rows [0, N/2) and [N/2, N) are packed by themselves, panel 2j is
///   panel
///                            j of the first half, 2j + 1 of the second
///
/// Places of no row or column are zero. Narrowing rounds to nearest, ties to even. Refused if a
/// source is missing or the sources, one after another, do not have the weight's shape. Uses
/// `threads` threads.
Status packWeight(const WeightRecipe &recipe, const Checkpoint &checkpoint, int threads,
                  std::span<std::byte> out);

/// Told after each weight: bytes done and of all.
using PackProgress = std::function<void(uint64_t done, uint64_t total)>;

/// Given a packed weight: its offset among all, its bytes up to the next one's.
using WeightSink = std::function<Status(uint64_t offset, std::span<const std::byte> bytes)>;

/// Packs weight by weight, with memory for one at a time, in the order of their places.
Status packWeights(const Program &program, const Checkpoint &checkpoint, int threads,
                   const WeightSink &sink, const PackProgress &progress = {});

/// Where the weights lie, one after another, each on a multiple of 64 bytes.
struct WeightPlaces {
  std::vector<uint64_t> offsets; ///< one a weight
  uint64_t total = 0;            ///< bytes
  /// For each weight, the sources that no later weight uses.
  std::vector<std::vector<std::string>> finished;
};
Expected<WeightPlaces> planWeights(const Program &program);

/// All weights of a program: in one allocation of exactly the planned bytes, or in a mapped file.
class WeightArena {
public:
  /// Packs weight by weight; the source's pages are dropped when the last recipe that uses them is
  /// done. With threads = 0: as many as this process has cores.
  static Expected<WeightArena> pack(const Program &program, const Checkpoint &checkpoint,
                                    int threads, const PackProgress &progress = {});

  /// The same memory with made-up values, for measuring time without a checkpoint: vectors are 1,
  /// matrices small pseudo-random numbers, the same in every run; no denormals come of them.
  static Expected<WeightArena> madeUp(const Program &program, const PackProgress &progress = {});
  /// All zero: pages that nobody writes to take no memory, whatever the model's size.
  static Expected<WeightArena> zeros(const Program &program) { return allocate(program); }

  /// The first byte of weight `index`.
  const std::byte *data(size_t index) const { return start + places.offsets[index]; }
  uint64_t bytes() const { return places.total; }
  /// All of them.
  std::span<const std::byte> payload() const { return {start, size_t(places.total)}; }
  /// Whether the bytes are a file's, which the system may drop and read again.
  bool isMapped() const { return file.size() != 0; }

  /// The weights in `file` from `payload` on.
  static WeightArena mapped(MappedFile file, uint64_t payload, WeightPlaces places);

private:
  static Expected<WeightArena> allocate(const Program &program);

  PageMemory memory;
  MappedFile file;
  const std::byte *start = nullptr;
  WeightPlaces places;
};

} // namespace gemma
