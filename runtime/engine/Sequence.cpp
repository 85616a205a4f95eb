#include "runtime/abi/ProgramSizes.h"
#include "runtime/engine/Context.h"
#include "runtime/weights/MadeUp.h"

#include <algorithm>

namespace gemma {

Sequence::~Sequence() {
  context.freePages.insert(context.freePages.end(), pages.rbegin(), pages.rend());
  context.freeSlots.push_back(slot);
  context.sequences[size_t(slot)] = nullptr;
}

int64_t Sequence::room() const { return context.contextLength() - tokens; }

Status Sequence::truncate(int64_t length) {
  if (length < 0 || length > tokens)
    return badInput("cannot take a sequence of " + std::to_string(tokens) + " tokens back to " +
                    std::to_string(length));
  if (length == tokens)
    return {};
  int64_t most = context.model().program().limits.maxChunk;
  if (length != 0) {
    if (context.poison)
      return badInput("tokens cannot be taken back while dead cache places are poisoned");
    // What was ever written beyond `length` has overwritten, in the rings, what lies a ring's
    // length before it.
    if (context.ringPages != 0 && highWater - length > most)
      return badInput("cannot take back to " + std::to_string(length) +
                      " tokens: the sliding layers keep the last " + std::to_string(most) + " of " +
                      std::to_string(highWater));
  }
  tokens = length;
  if (length == 0)
    highWater = 0;
  releasePages(length);
  return {};
}

void Sequence::takePages(int64_t length) {
  while (int64_t(pages.size()) * 16 < length) {
    pages.push_back(context.freePages.back());
    context.freePages.pop_back();
    context.discardPages(/*ring=*/false, pages.back(), 1);
  }
}

Status Sequence::makeUp(int64_t length) {
  if (tokens != 0)
    return badInput("expected an empty sequence to make up tokens of, got one of " +
                    std::to_string(tokens));
  if (context.poison || context.executor->watchesReads())
    return badInput("tokens cannot be made up while reads of dead cache places are watched");
  int64_t pageCount = (length + 15) / 16;
  if (length < 0)
    return badInput("expected a number of tokens to make up, got " + std::to_string(length));
  if (length > room() || pageCount > int64_t(context.freePages.size()))
    return badInput("context full: expected at most " +
                    std::to_string(std::min(room(), 16 * int64_t(context.freePages.size()))) +
                    " made-up tokens, got " + std::to_string(length));
  takePages(length);
  const std::vector<CachePlan> &caches = context.model().program().caches;
  for (size_t c = 0; c < caches.size(); ++c)
    for (size_t lane = 0; lane < cacheLaneCount; ++lane) {
      if (!hasLane(caches[c], lane))
        continue;
      uint64_t bytes = lanePageBytes(caches[c], lane).value_or(0);
      int64_t used = caches[c].ring ? std::min(pageCount, caches[c].ringPages) : pageCount;
      for (int64_t page = 0; page < used; ++page) {
        int64_t place = context.pageOf(*this, 16 * page, caches[c].ring);
        ByteRange range{context.lanes[c * cacheLaneCount + lane].offset + uint64_t(place) * bytes,
                        bytes};
        std::span<std::byte> out(context.onHost(range.offset), size_t(bytes));
        if (isScaleLane(lane))
          fillMadeUpScales(caches[c].elem, ScalarType::F32, out);
        else
          fillMadeUp(caches[c].elem, out);
        if (Status status = context.executor->upload(range); !status) {
          releasePages(0);
          return status;
        }
      }
    }
  tokens = highWater = length;
  return {};
}

void Sequence::releasePages(int64_t length) {
  size_t keep = size_t((length + 15) / 16);
  while (pages.size() > keep) {
    context.freePages.push_back(pages.back());
    pages.pop_back();
  }
}

} // namespace gemma
