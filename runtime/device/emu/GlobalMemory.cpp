#include "runtime/device/emu/GlobalMemory.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

namespace gemma::emu {

WrittenBytes::WrittenBytes(uint64_t begin, uint64_t end)
    : first(begin / 16), end(end),
      chunks(new std::atomic<uint16_t>[(end + 15) / 16 - begin / 16]()) {}

template <typename Body>
void WrittenBytes::forEach(uint64_t address, uint64_t bytes, Body &&body) const {
  uint64_t last = std::min(address + bytes, end);
  if (address < last)
    forEachChunk(address, last - address,
                 [&](uint64_t chunk, uint16_t mask) { body(chunks[chunk - first], mask, chunk); });
}

void WrittenBytes::mark(uint64_t address, uint64_t bytes) {
  forEach(address, bytes, [](std::atomic<uint16_t> &chunk, uint16_t mask, uint64_t) {
    if ((chunk.load(std::memory_order_relaxed) & mask) != mask)
      chunk.fetch_or(mask, std::memory_order_relaxed);
  });
}

void WrittenBytes::forget(uint64_t address, uint64_t bytes) {
  forEach(address, bytes, [](std::atomic<uint16_t> &chunk, uint16_t mask, uint64_t) {
    if (chunk.load(std::memory_order_relaxed) & mask)
      chunk.fetch_and(uint16_t(~mask), std::memory_order_relaxed);
  });
}

uint64_t WrittenBytes::firstUnwritten(uint64_t address, uint64_t bytes) const {
  uint64_t found = address + bytes;
  forEach(address, bytes, [&](std::atomic<uint16_t> &chunk, uint16_t mask, uint64_t chunkNumber) {
    unsigned missing = mask & ~unsigned(chunk.load(std::memory_order_relaxed));
    if (missing && found == address + bytes)
      found = chunkNumber * 16 + unsigned(std::countr_zero(missing));
  });
  return found;
}

bool WrittenBytes::anyWritten(uint64_t address, uint64_t bytes) const {
  bool found = false;
  forEach(address, bytes, [&](std::atomic<uint16_t> &chunk, uint16_t mask, uint64_t) {
    found |= (chunk.load(std::memory_order_relaxed) & mask) != 0;
  });
  return found;
}

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

bool GlobalMemory::track(const void *memory) {
  uint64_t begin = reinterpret_cast<uint64_t>(memory);
  auto region = std::ranges::find(sorted, begin, &Region::begin);
  if (region == sorted.end())
    return false;
  region->written = std::make_shared<WrittenBytes>(region->begin, region->end);
  return true;
}

template <typename Body>
void GlobalMemory::forEachTracked(const void *memory, size_t bytes, Body &&body) const {
  uint64_t begin = reinterpret_cast<uint64_t>(memory), end = begin + bytes;
  for (const Region &region : sorted) {
    uint64_t first = std::max(begin, region.begin), last = std::min(end, region.end);
    if (region.written && first < last)
      body(*region.written, first, last - first);
  }
}

void GlobalMemory::wrote(const void *memory, size_t bytes) {
  forEachTracked(memory, bytes, [](WrittenBytes &written, uint64_t address, uint64_t count) {
    written.mark(address, count);
  });
}

void GlobalMemory::forget(const void *memory, size_t bytes) {
  forEachTracked(memory, bytes, [](WrittenBytes &written, uint64_t address, uint64_t count) {
    written.forget(address, count);
  });
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
