#include "runtime/weights/WeightArena.h"

#include "runtime/abi/ProgramSizes.h"
#include "runtime/support/BFloat16.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace gemma {

Expected<WeightArena> WeightArena::allocate(const Program &program) {
  Expected<WeightPlaces> places = planWeights(program);
  if (!places)
    return places.status();
  Expected<PageMemory> memory = PageMemory::allocate(places->total, "weights");
  if (!memory)
    return memory.status();
  WeightArena arena;
  arena.memory = std::move(*memory);
  arena.start = arena.memory.data();
  arena.places = std::move(*places);
  return arena;
}

Expected<WeightArena> WeightArena::pack(const Program &program, const TensorSource &tensors,
                                        int threads, const PackProgress &progress) {
  if (threads <= 0)
    threads = int(std::max(1u, std::thread::hardware_concurrency()));
  Expected<WeightArena> allocated = allocate(program);
  if (!allocated)
    return allocated;
  WeightArena arena = std::move(*allocated);
  for (size_t i = 0; i < program.weights.size(); ++i) {
    const WeightRecipe &recipe = program.weights[i];
    std::span<std::byte> out(arena.memory.data() + arena.places.offsets[i], size_t(recipe.bytes));
    if (Status status = packWeight(recipe, tensors, threads, out); !status)
      return status;
    for (const std::string &source : arena.places.finished[i])
      tensors.release(source);
    if (progress)
      progress(arena.places.offsets[i] + recipe.bytes, arena.places.total);
  }
  return arena;
}

/// Fills `out` with copies of a block of values: all 1, or within ±1/32.
template <typename Elem, typename Narrow>
static void fillMadeUp(std::span<std::byte> out, bool ones, Narrow narrow) {
  std::vector<Elem> block(8191); // odd: rows do not begin alike
  uint32_t state = 1;
  for (Elem &value : block) {
    state = state * 1664525u + 1013904223u;
    value = narrow(ones ? 1.0f : float(int32_t(state)) * 0x1p-36f);
  }
  size_t bytes = block.size() * sizeof(Elem);
  for (size_t at = 0; at < out.size(); at += bytes)
    std::memcpy(out.data() + at, block.data(), std::min(bytes, out.size() - at));
}

/// Codes of every value within ±1/32.
static void fillMadeUpCodes(const WeightRecipe &recipe, std::span<std::byte> out) {
  bool bytes = recipe.storage == ScalarType::I8;
  size_t codes = size_t(scaleOffset(recipe).value_or(0));
  std::vector<std::byte> block(8191);
  uint32_t state = 1;
  for (std::byte &code : block) {
    state = state * 1664525U + 1013904223U;
    code = std::byte(bytes ? 1 + (state >> 24) % 255 : state >> 24); // i8 has no code 0
  }
  for (size_t at = 0; at < codes; at += block.size())
    std::memcpy(out.data() + at, block.data(), std::min(block.size(), codes - at));
  uint16_t scale = bytes ? 0x0c00 : 0x1c00; // 2^-12, 2^-8
  for (size_t at = codes; at + sizeof scale <= out.size(); at += sizeof scale)
    std::memcpy(out.data() + at, &scale, sizeof scale);
}

Expected<WeightArena> WeightArena::madeUp(const Program &program, const PackProgress &progress) {
  Expected<WeightArena> arena = allocate(program);
  if (!arena)
    return arena;
  for (size_t i = 0; i < program.weights.size(); ++i) {
    const WeightRecipe &recipe = program.weights[i];
    uint64_t offset = arena->places.offsets[i];
    std::span<std::byte> out(arena->memory.data() + offset, size_t(recipe.bytes));
    bool ones = recipe.shape.size() < 2;
    if (isQuantized(recipe.storage))
      fillMadeUpCodes(recipe, out);
    else if (recipe.storage == ScalarType::F64)
      fillMadeUp<double>(out, ones, [](float value) { return double(value); });
    else if (recipe.storage == ScalarType::F32)
      fillMadeUp<float>(out, ones, [](float value) { return value; });
    else
      fillMadeUp<uint16_t>(out, ones, [](float value) { return f32ToBf16(value); });
    if (progress)
      progress(offset + recipe.bytes, arena->places.total);
  }
  return arena;
}

WeightArena WeightArena::mapped(MappedFile file, uint64_t payload, WeightPlaces places) {
  WeightArena arena;
  arena.file = std::move(file);
  arena.start = arena.file.bytes().data() + payload;
  arena.places = std::move(places);
  return arena;
}

} // namespace gemma
