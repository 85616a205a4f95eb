#include "runtime/checkpoint/Widen.h"

#include "runtime/support/BFloat16.h"

#include <cassert>
#include <cstring>

namespace gemma {

/// Reads out.size() elements of type Stored, which may lie unaligned, and converts each.
template <typename Stored, typename Real, typename Convert>
static void convertEach(const std::byte *from, std::span<Real> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    Stored element;
    std::memcpy(&element, from + i * sizeof element, sizeof element);
    out[i] = Real(convert(element));
  }
}

template <typename Real>
static void widenTo(ScalarType type, std::span<const std::byte> bytes, size_t first,
                    std::span<Real> out) {
  assert(isFloat(type) || type == ScalarType::I8);
  assert(first <= bytes.size() / byteWidth(type) &&
         out.size() <= bytes.size() / byteWidth(type) - first);
  const std::byte *from = bytes.data() + first * byteWidth(type);
  switch (type) {
  case ScalarType::F64:
    return convertEach<double>(from, out, [](double value) { return value; });
  case ScalarType::F32:
    return convertEach<float>(from, out, [](float value) { return value; });
  case ScalarType::BF16:
    return convertEach<uint16_t>(from, out, bf16ToF32);
  case ScalarType::F16:
    return convertEach<uint16_t>(from, out, f16ToF32);
  case ScalarType::I8:
    return convertEach<int8_t>(from, out, [](int8_t value) { return value; });
  default:
    return;
  }
}

void widen(ScalarType type, std::span<const std::byte> bytes, size_t first, std::span<double> out) {
  widenTo(type, bytes, first, out);
}

void widen(ScalarType type, std::span<const std::byte> bytes, size_t first, std::span<float> out) {
  widenTo(type, bytes, first, out);
}

std::vector<double> widenAll(ScalarType type, std::span<const std::byte> bytes) {
  std::vector<double> out(bytes.size() / byteWidth(type));
  widen(type, bytes, 0, std::span<double>(out));
  return out;
}

} // namespace gemma
