// Arithmetic on numbers with bounds: what f32 arithmetic of a few ulp may make of them.
#pragma once

#include "test/unit/gpu/KernelReference.h"

#include "runtime/support/BFloat16.h"

#include <cmath>
#include <limits>

namespace gemma::test {

constexpr double opError = 0x1p-22;  ///< of one operation, relative: two ulp of f32
constexpr double sumError = 0x1p-20; ///< of a sum, relative to the sum of magnitudes
constexpr double tiny = 1e-37;       ///< what flushing denormals may cost

inline Bounded rounded(double value, double error) {
  return {value, error + opError * std::fabs(value) + tiny};
}
inline Bounded operator+(Bounded a, Bounded b) {
  return rounded(a.value + b.value, a.error + b.error);
}
inline Bounded operator-(Bounded a, Bounded b) {
  return rounded(a.value - b.value, a.error + b.error);
}
inline Bounded operator-(Bounded a) { return {-a.value, a.error}; }
inline Bounded operator*(Bounded a, Bounded b) {
  return rounded(a.value * b.value,
                 std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error);
}
inline Bounded operator/(Bounded a, Bounded b) {
  double value = a.value / b.value, least = std::fabs(b.value) - b.error;
  if (least <= 0)
    return {value, std::numeric_limits<double>::infinity()};
  return rounded(value, (a.error + std::fabs(value) * b.error) / least);
}
inline Bounded larger(Bounded a, Bounded b) {
  return {std::max(a.value, b.value), std::max(a.error, b.error)};
}
inline Bounded squareRoot(Bounded a) {
  double value = std::sqrt(a.value);
  return rounded(value, value - std::sqrt(std::max(a.value - a.error, 0.0)));
}
inline Bounded exponential(Bounded a) {
  double value = std::exp(a.value);
  return rounded(value, value * std::expm1(a.error + opError * std::fabs(a.value)));
}
/// Its slope is 1 at most; it is computed from exponentials, whose error does not shrink with x.
inline Bounded hyperbolicTangent(Bounded a) {
  return {std::tanh(a.value), a.error + sumError * std::fabs(std::tanh(a.value)) + tiny};
}

/// As it is stored: what rounds to one number within its bounds is known exactly then.
inline Bounded asBf16(Bounded a) {
  auto stored = [](double value) { return double(bf16ToF32(f32ToBf16(float(value)))); };
  double low = stored(a.value - a.error), high = stored(a.value + a.error);
  if (low == high)
    return {low, 0};
  return {a.value, std::max(high - a.value, a.value - low)};
}
inline Bounded asF32(Bounded a) {
  if (a.error == 0)
    return {double(float(a.value)), 0};
  return {a.value, a.error + 0x1p-24 * (std::fabs(a.value) + a.error)};
}

} // namespace gemma::test
