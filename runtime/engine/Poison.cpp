#include "runtime/engine/Poison.h"

#include "runtime/abi/ProgramSizes.h"

#include <algorithm>
#include <cstring>

namespace gemma {

std::vector<uint16_t> CachePoison::alive(const CachePlan &cache) const {
  int64_t pages = context.memoryPlan.batch *
                  (cache.ring ? cache.ringPages : (context.contextLength() + 15) / 16);
  std::vector<uint16_t> bits(size_t(pages), 0);
  for (const Sequence *sequence : context.sequences) {
    if (!sequence)
      continue;
    int64_t first = cache.window ? std::max<int64_t>(0, sequence->tokens - cache.window + 1) : 0;
    for (int64_t position = first; position < sequence->tokens; ++position)
      bits[size_t(context.pageOf(*sequence, position, cache.ring))] |=
          uint16_t(1u << (position % 16));
  }
  return bits;
}

Status CachePoison::fillDeadPlaces() {
  if (Status status = context.fetchCaches(); !status)
    return status;
  const std::vector<CachePlan> &caches = context.model().program().caches;
  for (size_t c = 0; c < caches.size(); ++c) {
    const CachePlan &cache = caches[c];
    size_t width = byteWidth(cache.elem), page = size_t(cache.page), dim = size_t(cache.dim);
    size_t pageBytes = size_t(*lanePageBytes(cache)), heads = size_t(cache.heads);
    std::vector<uint16_t> bits = alive(cache);
    for (size_t p = 0; p < bits.size(); ++p)
      for (size_t o = 0; o < page; ++o) {
        if (bits[p] >> o & 1)
          continue;
        // All ones is a NaN in every float type.
        if (cache.keys) {
          std::byte *k = context.onHost(context.lanes[c * 2].offset) + p * pageBytes;
          for (size_t row = 0; row < heads * dim; ++row)
            std::memset(k + (row * page + o) * width, 0xff, width);
        }
        std::byte *v = context.onHost(context.lanes[c * 2 + 1].offset) + p * pageBytes;
        for (size_t head = 0; head < heads; ++head)
          std::memset(v + (head * page + o) * dim * width, 0xff, dim * width);
      }
  }
  for (const ByteRange &lane : context.lanes)
    if (lane.bytes != 0)
      if (Status status = context.executor->upload(lane); !status)
        return status;
  return {};
}

} // namespace gemma
