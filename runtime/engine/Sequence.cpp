#include "runtime/engine/Context.h"

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

void Sequence::releasePages(int64_t length) {
  size_t keep = size_t((length + 15) / 16);
  while (pages.size() > keep) {
    context.freePages.push_back(pages.back());
    pages.pop_back();
  }
}

} // namespace gemma
