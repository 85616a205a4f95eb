#include "runtime/weights/MadeUp.h"

#include "runtime/support/BFloat16.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace gemma {

/// An odd number: a matrix's rows do not begin alike.
static constexpr size_t kBlock = 8191;

/// Fills `out` with copies of a block of elements.
template <typename Elem> static void repeat(std::span<const Elem> block, std::span<std::byte> out) {
  size_t bytes = block.size_bytes();
  for (size_t at = 0; at < out.size(); at += bytes)
    std::memcpy(out.data() + at, block.data(), std::min(bytes, out.size() - at));
}

/// Fills `out` with elements that `narrow` makes of a linear congruential generator's states.
template <typename Elem, typename Narrow>
static void fillRandom(std::span<std::byte> out, Narrow narrow) {
  std::array<Elem, kBlock> block;
  uint32_t state = 1;
  for (Elem &value : block) {
    state = state * 1664525U + 1013904223U;
    value = narrow(state);
  }
  repeat<Elem>(block, out);
}

template <typename Elem> static void fillCopies(std::span<std::byte> out, Elem value) {
  std::array<Elem, kBlock> block;
  block.fill(value);
  repeat<Elem>(block, out);
}

void fillMadeUp(ScalarType type, std::span<std::byte> out) {
  auto real = [](uint32_t state) { return float(int32_t(state)) * 0x1p-36F; };
  if (type == ScalarType::I8)
    fillRandom<uint8_t>(out, [](uint32_t state) { return uint8_t(1 + (state >> 24) % 255); });
  else if (type == ScalarType::I4)
    fillRandom<uint8_t>(out, [](uint32_t state) { return uint8_t(state >> 24); });
  else if (type == ScalarType::F64)
    fillRandom<double>(out, [&](uint32_t state) { return double(real(state)); });
  else if (type == ScalarType::F32)
    fillRandom<float>(out, real);
  else
    fillRandom<uint16_t>(out, [&](uint32_t state) { return f32ToBf16(real(state)); });
}

void fillMadeUpScales(ScalarType codes, ScalarType type, std::span<std::byte> out) {
  bool bytes = codes == ScalarType::I8; // of 7 bits and a sign, or of 3
  if (type == ScalarType::F32)
    fillCopies(out, bytes ? 0x1p-12F : 0x1p-8F);
  else
    fillCopies(out, uint16_t(bytes ? 0x0c00 : 0x1c00));
}

void fillOnes(ScalarType type, std::span<std::byte> out) {
  if (type == ScalarType::F64)
    fillCopies(out, 1.0);
  else if (type == ScalarType::F32)
    fillCopies(out, 1.0F);
  else
    fillCopies(out, f32ToBf16(1.0F));
}

} // namespace gemma
