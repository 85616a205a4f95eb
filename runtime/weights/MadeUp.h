// Made-up contents of weights and caches, for measuring time, which does not depend on values.
#pragma once

#include "runtime/support/ScalarType.h"

#include <cstddef>
#include <span>

namespace gemma {

/// Fills `out` with elements of that type (f64, f32, bf16, i8, i4) within ±1/32, or with codes that
/// are within it once they are times fillMadeUpScales(). They are pseudo-random and the same in
/// every run; no denormals come of them. Bytes of i8 are of the weights' codes, which lie 128 above
/// the values, from 1 on; read as signed codes, as caches have them, they are within the bound too.
void fillMadeUp(ScalarType type, std::span<std::byte> out);
/// Fills `out` with scales, f16 or f32 as `type` says, of codes that fillMadeUp() made.
void fillMadeUpScales(ScalarType codes, ScalarType type, std::span<std::byte> out);
/// Fills `out` with ones of that type (f64, f32, bf16).
void fillOnes(ScalarType type, std::span<std::byte> out);

} // namespace gemma
