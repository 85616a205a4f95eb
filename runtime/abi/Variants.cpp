#include "runtime/abi/Variants.h"

#include <algorithm>

namespace gemma {

bool takes(const Variant &variant, const StepSizes &sizes) {
  return std::all_of(variant.conditions.begin(), variant.conditions.end(),
                     [&](const SizeCondition &condition) { return condition.holds(sizes); });
}

size_t variantFor(const Program &program, const StepSizes &sizes) {
  auto found = std::find_if(program.variants.begin(), program.variants.end(),
                            [&](const Variant &variant) { return takes(variant, sizes); });
  return size_t(found - program.variants.begin());
}

std::optional<StepSizes> largestDecodeStep(const Variant &variant, const ProgramLimits &limits,
                                           int64_t batch) {
  int64_t longest = limits.maxContext;
  if (takes(variant, {2, 1, 2, longest, 1}))
    return std::nullopt;
  for (int64_t count = std::min({batch, limits.maxBatch, limits.maxChunk}); count > 0; --count) {
    StepSizes sizes = {count, count, 1, longest, std::min(count, limits.maxLogitRows)};
    if (takes(variant, sizes))
      return sizes;
  }
  return std::nullopt;
}

} // namespace gemma
