// What instructions this processor has and the system lets us use.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

namespace gemma {

/// Features in LLVM's spelling ("avx2", "avx512vnni"), found with cpuid; those that need registers
/// which the system does not save (xgetbv) are left out.
const std::set<std::string, std::less<>> &cpuFeatures();

/// The first of these features that is not there, or empty.
std::string_view missingFeature(std::span<const std::string> needed);

/// The processor's name, for reports.
std::string cpuName();

} // namespace gemma
