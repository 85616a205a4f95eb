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
    size_t heads = size_t(cache.heads);
    std::vector<uint16_t> bits = alive(cache);
    // `parts` elements of `bytes` each for every head and position: one after the other, or a page
    // of positions apart.
    auto fill = [&](size_t lane, size_t parts, size_t bytes, bool apart, size_t p, size_t o) {
      if (!hasLane(cache, lane))
        return;
      std::byte *at = context.onHost(context.lanes[c * cacheLaneCount + lane].offset) +
                      p * *lanePageBytes(cache, lane);
      for (size_t head = 0; head < heads; ++head)
        for (size_t part = 0; part < parts; ++part)
          std::memset(
              at + (apart ? (head * parts + part) * page + o : (head * page + o) * parts + part) *
                       bytes,
              0xff, bytes);
    };
    for (size_t p = 0; p < bits.size(); ++p)
      for (size_t o = 0; o < page; ++o) {
        if (bits[p] >> o & 1)
          continue;
        // All ones is a NaN in every float type; of codes the scales are.
        fill(0, dim, width, /*apart=*/true, p, o);
        fill(1, dim, width, /*apart=*/false, p, o);
        fill(2, 1, 4, /*apart=*/false, p, o);
        fill(3, 1, 4, /*apart=*/false, p, o);
      }
  }
  for (const ByteRange &lane : context.lanes)
    if (lane.bytes != 0)
      if (Status status = context.executor->upload(lane); !status)
        return status;
  return {};
}

} // namespace gemma
