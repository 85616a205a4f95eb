// Fills what kernels must not read with NaN, so that a read shows.
#pragma once

#include "runtime/engine/Context.h"

namespace gemma {

class CachePoison {
public:
  explicit CachePoison(Context &context) : context(context) {}

  /// Every place of every cache that the next token of its sequence cannot see.
  Status fillDeadPlaces();

private:
  /// For each page of a cache, which of its 16 positions are alive (a bit each).
  std::vector<uint16_t> alive(const CachePlan &cache) const;

  Context &context;
};

} // namespace gemma
