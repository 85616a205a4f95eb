// All weights of a program in memory.
#pragma once

#include "runtime/support/MappedFile.h"
#include "runtime/support/Memory.h"
#include "runtime/weights/Packer.h"

namespace gemma {

/// All weights of a program: in one allocation of exactly the planned bytes, or in a mapped file.
class WeightArena {
public:
  /// Packs weight by weight; the source's pages are dropped when the last recipe that uses them is
  /// done. With threads = 0: as many as this process has cores.
  static Expected<WeightArena> pack(const Program &program, const TensorSource &tensors,
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
