#include "runtime/weights/WeightArena.h"

#include "runtime/abi/ProgramSizes.h"
#include "runtime/weights/MadeUp.h"

#include <algorithm>
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

Expected<WeightArena> WeightArena::madeUp(const Program &program, const PackProgress &progress) {
  Expected<WeightArena> arena = allocate(program);
  if (!arena)
    return arena;
  for (size_t i = 0; i < program.weights.size(); ++i) {
    const WeightRecipe &recipe = program.weights[i];
    uint64_t offset = arena->places.offsets[i];
    std::span<std::byte> out(arena->memory.data() + offset, size_t(recipe.bytes));
    if (isQuantized(recipe.storage)) {
      auto codes = size_t(scaleOffset(recipe).value_or(0));
      fillMadeUp(recipe.storage, out.first(codes));
      fillMadeUpScales(recipe.storage, ScalarType::F16, out.subspan(codes));
    } else if (recipe.shape.size() < 2) {
      fillOnes(recipe.storage, out);
    } else {
      fillMadeUp(recipe.storage, out);
    }
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
