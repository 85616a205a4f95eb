#include "runtime/device/emu/GlobalMemory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace gemma::emu {

void GlobalMemory::Free::operator()(void *memory) const { std::free(memory); }

Status GlobalMemory::add(const void *memory, size_t bytes, std::string name, bool readOnly) {
  uint64_t begin = reinterpret_cast<uint64_t>(memory);
  Region region{begin, begin + bytes, std::move(name), readOnly};
  auto after = std::upper_bound(sorted.begin(), sorted.end(), region.begin,
                                [](uint64_t a, const Region &r) { return a < r.begin; });
  bool overlapsNext = after != sorted.end() && after->begin < region.end;
  bool overlapsPrevious = after != sorted.begin() && std::prev(after)->end > region.begin;
  if (overlapsNext || overlapsPrevious)
    return internalError("emulated device: memory of " + region.name + " overlaps that of " +
                         (overlapsNext ? *after : *std::prev(after)).name);
  sorted.insert(after, std::move(region));
  return {};
}

bool GlobalMemory::remove(const void *memory) {
  uint64_t begin = reinterpret_cast<uint64_t>(memory);
  size_t removed = std::erase_if(sorted, [&](const Region &r) { return r.begin == begin; });
  std::erase_if(owned, [&](const auto &own) { return own.get() == memory; });
  return removed != 0;
}

Expected<void *> GlobalMemory::allocate(size_t bytes, std::string name, bool readOnly) {
  size_t rounded = (std::max<size_t>(bytes, 1) + 255) / 256 * 256;
  std::unique_ptr<void, Free> memory(std::aligned_alloc(256, rounded));
  if (!memory)
    return badInput("emulated device: no memory for " + std::to_string(bytes) + " bytes of " +
                    name);
  std::memset(memory.get(), 0xff, rounded);
  if (Status status = add(memory.get(), bytes, std::move(name), readOnly); !status)
    return status;
  owned.push_back(std::move(memory));
  return owned.back().get();
}

const GlobalMemory::Region *GlobalMemory::find(uint64_t address) const {
  auto after = std::upper_bound(sorted.begin(), sorted.end(), address,
                                [](uint64_t a, const Region &r) { return a < r.begin; });
  if (after == sorted.begin())
    return nullptr;
  const Region &region = *std::prev(after);
  return address < region.end ? &region : nullptr;
}

} // namespace gemma::emu
