// The host processor as a device: which of an artifact's objects runs here.
#pragma once

#include "runtime/device/KernelObject.h"
#include "runtime/support/Status.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gemma {

/// An object to choose from.
struct IsaCandidate {
  std::string_view name;
  std::span<const std::string> features; ///< in LLVM's spelling; all are needed
};

/// The index of the candidate with the most features among those that this processor can run. The
/// environment variable GEMMA_ISA names one that must be taken: refused if there is none of that
/// name or this processor cannot run it.
Expected<size_t> chooseIsa(std::span<const IsaCandidate> candidates);

/// The same for a stated wish instead of the environment's; empty: none.
Expected<size_t> chooseIsa(std::span<const IsaCandidate> candidates, std::string_view forced);

} // namespace gemma
