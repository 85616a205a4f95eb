// Exact conversion of a tensor's elements to float or double.
#pragma once

#include "runtime/support/ScalarType.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gemma {

/// Elements [first, first + out.size()) of the tensor data `bytes` (little-endian, unaligned) of
/// the float type `type`, exactly. The range must lie in `bytes`.
void widen(ScalarType type, std::span<const std::byte> bytes, size_t first, std::span<double> out);

/// As above; exact for F32, BF16 and F16. F64 is rounded to nearest: callers that need exactness
/// ask widensExactlyToFloat().
void widen(ScalarType type, std::span<const std::byte> bytes, size_t first, std::span<float> out);

constexpr bool widensExactlyToFloat(ScalarType type) {
  return type == ScalarType::F32 || type == ScalarType::BF16 || type == ScalarType::F16;
}

/// All elements of `bytes`.
std::vector<double> widenAll(ScalarType type, std::span<const std::byte> bytes);

} // namespace gemma
