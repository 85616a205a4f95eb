// Exact widening and correctly rounded narrowing of 16-bit floats, in plain integer code, so that
// results do not depend on what the compiler or the processor offers.
#pragma once

#include <bit>
#include <cstdint>

namespace gemma {

inline float bf16ToF32(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

/// Round to nearest, ties to even; NaN stays NaN (quiet).
inline uint16_t f32ToBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return uint16_t((bits >> 16) | 0x40);
  return uint16_t((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

/// Exact: subnormals, infinities and NaN included.
inline float f16ToF32(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f)
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    float magnitude = float(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

} // namespace gemma
