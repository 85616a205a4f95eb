#include "runtime/device/HostDevice.h"

#include "runtime/device/CpuFeatures.h"
#include "runtime/support/Json.h"

#include <cstdlib>
#include <optional>

namespace gemma {

static std::string listNames(std::span<const IsaCandidate> candidates) {
  std::string out;
  for (const IsaCandidate &candidate : candidates)
    out += (out.empty() ? "" : ", ") + std::string(candidate.name);
  return out.empty() ? "none" : out;
}

Expected<size_t> chooseIsa(std::span<const IsaCandidate> candidates, std::string_view forced) {
  if (!forced.empty()) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].name != forced)
        continue;
      if (std::string_view missing = missingFeature(candidates[i].features); !missing.empty())
        return badInput("GEMMA_ISA=" + std::string(forced) + ": this processor has no " +
                        std::string(missing));
      return i;
    }
    return badInput("GEMMA_ISA: expected one of " + listNames(candidates) + ", got " +
                    quoteForMessage(forced));
  }
  std::optional<size_t> best;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (missingFeature(candidates[i].features).empty() &&
        (!best || candidates[i].features.size() > candidates[*best].features.size()))
      best = i;
  if (best)
    return *best;
  return badInput("no kernels for this processor (" + cpuName() + "): the artifact has " +
                  listNames(candidates));
}

Expected<size_t> chooseIsa(std::span<const IsaCandidate> candidates) {
  const char *forced = std::getenv("GEMMA_ISA");
  return chooseIsa(candidates, forced ? forced : "");
}

} // namespace gemma
