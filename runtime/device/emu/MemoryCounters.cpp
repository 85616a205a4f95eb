#include "runtime/device/emu/MemoryCounters.h"

#include <algorithm>

namespace gemma::emu {

uint64_t Counters::bytesInFlightP10() const {
  if (bytesInFlight.empty())
    return 0;
  std::vector<uint64_t> sorted = bytesInFlight;
  auto place = sorted.begin() + ptrdiff_t(sorted.size() / 10);
  std::nth_element(sorted.begin(), place, sorted.end());
  return *place;
}

void Counters::add(const Counters &other) {
  blocks += other.blocks;
  instructions += other.instructions;
  maxBlockInstructions = std::max(maxBlockInstructions, other.maxBlockInstructions);
  barriers += other.barriers;
  mmaFlops += other.mmaFlops;
  switches += other.switches;
  globalReadBytes += other.globalReadBytes;
  globalWriteBytes += other.globalWriteBytes;
  globalUsefulBytes += other.globalUsefulBytes;
  globalSectors += other.globalSectors;
  globalWideBytes += other.globalWideBytes;
  sharedWavefronts += other.sharedWavefronts;
  sharedIdealWavefronts += other.sharedIdealWavefronts;
  bytesInFlight.insert(bytesInFlight.end(), other.bytesInFlight.begin(), other.bytesInFlight.end());
}

void MemoryCounters::prepare(size_t warps, size_t sites) {
  if (table.size() != warps || (warps && table.front().size() != sites))
    table.assign(warps, std::vector<Site>(sites));
}

void MemoryCounters::access(uint32_t warp, uint32_t lane, uint32_t live, size_t site, Space space,
                            bool write, uint64_t address, uint32_t bytes) {
  if (space == Global)
    (write ? counters->globalWriteBytes : counters->globalReadBytes) += bytes;
  Site &entry = table[warp][site];
  if (!entry.touched) {
    entry.touched = true;
    touched.push_back(&entry);
  }
  size_t index = entry.next[lane]++ - entry.done;
  if (index == entry.groups.size())
    entry.groups.emplace_back();
  Group &group = entry.groups[index];
  group.lanes |= 1u << lane;
  group.bytes = bytes;
  group.space = space;
  group.addresses[lane] = address;
  while (!entry.groups.empty() && (entry.groups.front().lanes | ~live) == ~0u) {
    count(entry.groups.front());
    entry.groups.pop_front();
    ++entry.done;
  }
}

void MemoryCounters::flush() {
  for (Site *site : touched) {
    for (const Group &group : site->groups)
      count(group);
    site->groups.clear();
    site->done = 0;
    std::fill(std::begin(site->next), std::end(site->next), 0);
    site->touched = false;
  }
  touched.clear();
}

void MemoryCounters::count(const Group &group) {
  if (group.space == Global)
    countGlobal(group);
  else
    countShared(group);
}

void MemoryCounters::countGlobal(const Group &group) {
  uint64_t starts[32];
  size_t lanes = 0;
  for (uint32_t rest = group.lanes; rest; rest &= rest - 1)
    starts[lanes++] = group.addresses[__builtin_ctz(rest)];
  std::sort(starts, starts + lanes);
  uint64_t covered = 0, nextSector = 0;
  for (size_t i = 0; i < lanes; ++i) {
    uint64_t begin = std::max(starts[i], covered), end = starts[i] + group.bytes;
    if (end <= begin)
      continue;
    counters->globalUsefulBytes += end - begin;
    if (group.bytes >= 16)
      counters->globalWideBytes += end - begin;
    uint64_t first = std::max(begin / 32, nextSector), last = (end - 1) / 32;
    if (last >= first)
      counters->globalSectors += last - first + 1;
    nextSector = last + 1;
    covered = end;
  }
}

/// Words per bank of one pass, and the passes it takes.
static uint64_t wavefronts(const uint64_t *words, size_t count, uint64_t &distinct) {
  uint64_t seen[64];
  uint8_t banks[32] = {};
  uint64_t most = 0;
  distinct = 0;
  for (size_t i = 0; i < count; ++i) {
    if (std::find(seen, seen + distinct, words[i]) != seen + distinct)
      continue;
    if (distinct < 64)
      seen[distinct++] = words[i];
    most = std::max<uint64_t>(most, ++banks[words[i] % 32]);
  }
  return most;
}

void MemoryCounters::countShared(const Group &group) {
  // Wide accesses go in passes of 32 words: 8 lanes of 16 bytes, 16 of 8.
  uint32_t wordsEach = std::max(1u, group.bytes / 4);
  uint32_t lanesAtOnce = std::max(1u, 32 / wordsEach);
  for (uint32_t first = 0; first < 32; first += lanesAtOnce) {
    uint64_t words[64];
    size_t count = 0;
    for (uint32_t lane = first; lane < first + lanesAtOnce; ++lane)
      if (group.lanes >> lane & 1)
        for (uint32_t word = 0; word < wordsEach && count < 64; ++word)
          words[count++] = group.addresses[lane] / 4 + word;
    if (count == 0)
      continue;
    uint64_t distinct;
    counters->sharedWavefronts += wavefronts(words, count, distinct);
    counters->sharedIdealWavefronts += std::max<uint64_t>(1, (distinct + 31) / 32);
  }
}

void MemoryCounters::matrix(const uint64_t *rows) {
  uint64_t words[32];
  for (unsigned row = 0; row < 8; ++row)
    for (unsigned word = 0; word < 4; ++word)
      words[row * 4 + word] = rows[row] / 4 + word;
  uint64_t distinct;
  counters->sharedWavefronts += wavefronts(words, 32, distinct);
  counters->sharedIdealWavefronts += 1;
}

} // namespace gemma::emu
