#include "runtime/device/emu/Provenance.h"

#include "runtime/support/BFloat16.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

namespace gemma::emu {
namespace {

constexpr uint32_t signBit = 0x80000000u, infinity = 0x7f800000u, nan = 0x7fffffffu;
constexpr uint32_t one = 0x3f800000u;

constexpr uint32_t magnitudeOf(uint32_t x) { return x & ~signBit; }
constexpr uint32_t signOf(uint32_t x) { return x & signBit; }
constexpr bool isFinite(uint32_t x) { return magnitudeOf(x) < infinity; }
constexpr bool isZero(uint32_t x) { return magnitudeOf(x) == 0; }

/// Every bit of the result depends on every bit of both.
constexpr uint64_t mix(uint64_t state, uint64_t word) {
  uint64_t x = (state ^ word) * 0xd1342543de82ef95u;
  x = (x ^ x >> 31) * 0xa0761d6478bd642fu;
  x = (x ^ x >> 29) * 0x9fb21c651e98df25u;
  return x ^ x >> 32;
}

/// A magnitude in [0.5, 8): of the size of real activations, so that code which tells ranges of
/// numbers apart takes the common path. Not 1, which factors may be.
constexpr uint32_t magnitude(uint64_t hash) {
  uint32_t bits = (126u + uint32_t(hash >> 62)) << 23 | uint32_t(hash >> 32 & 0x7fffff);
  return bits == one ? bits + 1 : bits;
}

constexpr uint64_t hashOf(uint32_t op, uint32_t a, uint32_t b = 0, uint32_t c = 0,
                          uint32_t relation = 0) {
  uint64_t state = mix(0x3c6ef372fe94f82bu, uint64_t(op) << 32 | relation);
  return mix(mix(state, uint64_t(a) << 32 | b), c);
}

/// The sign is that of the larger one, the hash does not know the order: x + y = y + x, and
/// -x - y = -(x + y).
uint32_t sum(uint32_t x, uint32_t y) {
  if (magnitudeOf(x) < magnitudeOf(y))
    std::swap(x, y);
  if (isZero(y))
    return isZero(x) ? x & y : x;
  bool opposite = signOf(x) != signOf(y);
  if (opposite && magnitudeOf(x) == magnitudeOf(y))
    return 0;
  return signOf(x) |
         magnitude(hashOf(EmuProvenanceAdd, magnitudeOf(x), magnitudeOf(y), 0, opposite));
}

uint32_t product(uint32_t x, uint32_t y) {
  uint32_t sign = signOf(x ^ y), high = magnitudeOf(x), low = magnitudeOf(y);
  if (high < low)
    std::swap(high, low);
  if (low == 0)
    return sign;
  if (low == one)
    return sign | high;
  if (high == one)
    return sign | low;
  return sign | magnitude(hashOf(EmuProvenanceMul, high, low));
}

uint32_t quotient(uint32_t op, uint32_t x, uint32_t y) {
  uint32_t sign = signOf(x ^ y);
  if (isZero(x))
    return sign;
  if (magnitudeOf(y) == one && op == EmuProvenanceDiv)
    return sign | magnitudeOf(x);
  return sign | magnitude(hashOf(op, magnitudeOf(x), magnitudeOf(y)));
}

uint32_t fusedSum(uint32_t x, uint32_t y, uint32_t z) {
  uint32_t sign = signOf(x ^ y), high = magnitudeOf(x), low = magnitudeOf(y);
  if (high < low)
    std::swap(high, low);
  // Where the product is exact it makes no difference when it is rounded.
  if (low == 0 || low == one || high == one)
    return sum(product(x, y), z);
  if (isZero(z))
    return product(x, y);
  bool opposite = sign != signOf(z);
  uint64_t hash = hashOf(EmuProvenanceFma, high, low, magnitudeOf(z), opposite);
  // Of opposite signs, which is the larger one nobody knows.
  if (opposite && hash >> 24 & 1)
    sign ^= signBit;
  return sign | magnitude(hash);
}

float asFloat(uint32_t x) { return std::bit_cast<float>(x); }

/// The operation itself; its last bits do not matter here.
float exactly(uint32_t kind, float a, float b, float c) {
  switch (kind) {
  case EmuProvenanceAdd:
    return a + b;
  case EmuProvenanceMul:
    return a * b;
  case EmuProvenanceDiv:
    return a / b;
  case EmuProvenanceFma:
    return std::fma(a, b, c);
  case EmuProvenanceSqrt:
    return std::sqrt(a);
  case EmuProvenanceRsqrt:
    return 1 / std::sqrt(a);
  case EmuProvenanceExp2:
    return std::exp2(a);
  case EmuProvenanceLog2:
    return std::log2(a);
  case EmuProvenanceTanh:
    return std::tanh(a);
  case EmuProvenanceSin:
    return std::sin(a);
  default:
    return std::cos(a);
  }
}

/// Whether a function of one operand gives something else than a hash at a finite one: exact
/// values, poles, and NaN outside of where it is defined.
bool isSpecial(uint32_t kind, uint32_t a) {
  if (isZero(a))
    return true;
  bool negative = signOf(a);
  return (negative &&
          (kind == EmuProvenanceSqrt || kind == EmuProvenanceRsqrt || kind == EmuProvenanceLog2)) ||
         (a == one && kind != EmuProvenanceExp2 && kind != EmuProvenanceTanh &&
          kind != EmuProvenanceSin && kind != EmuProvenanceCos);
}

uint32_t toBf16(uint32_t x) {
  if (!isFinite(x))
    return magnitudeOf(x) == infinity ? x >> 16 : 0x7fff;
  if ((x & 0xffff) == 0)
    return x >> 16;
  uint64_t hash = hashOf(EmuProvenanceToBf16, magnitudeOf(x));
  // Nothing tells ranges of narrow numbers apart, so the exponent has 7 bits of the hash.
  uint32_t bits = (64u + uint32_t(hash >> 57)) << 7 | uint32_t(hash >> 32 & 0x7f);
  return signOf(x) >> 16 | (bits == one >> 16 ? bits + 1 : bits);
}

constexpr unsigned mostProducts = 16;

/// An odd number for each place in a sum.
constexpr std::array<uint64_t, mostProducts> placeFactors = [] {
  std::array<uint64_t, mostProducts> factors{};
  for (unsigned k = 0; k < mostProducts; ++k)
    factors[k] = mix(0x6a09e667f3bcc909u, k + 1) | 1;
  return factors;
}();

} // namespace

uint32_t provenanceOf(uint32_t op, uint32_t a, uint32_t b, uint32_t c) {
  uint32_t kind = op & EmuProvenanceKindMask;
  if (kind == EmuProvenanceToBf16)
    return toBf16(a);
  bool binary = kind <= EmuProvenanceFma, ternary = kind == EmuProvenanceFma;
  bool finite = isFinite(a) && (!binary || isFinite(b)) && (!ternary || isFinite(c));
  if (!finite || (kind == EmuProvenanceDiv && isZero(b)) || (!binary && isSpecial(kind, a))) {
    float value = exactly(kind, asFloat(a), asFloat(b), asFloat(c));
    return std::isnan(value) ? nan : std::bit_cast<uint32_t>(value);
  }
  switch (kind) {
  case EmuProvenanceAdd:
    return sum(a, b);
  case EmuProvenanceMul:
    return product(a, b);
  case EmuProvenanceDiv:
    return quotient(op, a, b);
  case EmuProvenanceFma:
    return fusedSum(a, b, c);
  case EmuProvenanceTanh: // odd
    return signOf(a) | magnitude(hashOf(op, magnitudeOf(a)));
  case EmuProvenanceLog2:
  case EmuProvenanceSin:
  case EmuProvenanceCos: {
    uint64_t hash = hashOf(op, a);
    return (hash >> 24 & 1 ? signBit : 0) | magnitude(hash);
  }
  default: // roots and powers are positive
    return magnitude(hashOf(op, a));
  }
}

uint32_t provenanceOfSum(uint32_t c, std::span<const uint16_t> a, std::span<const uint16_t> b) {
  uint64_t hash = 0;
  uint32_t signs = 0; // bit 0: a positive term, bit 1: a negative one
  bool finite = isFinite(c), any = false;
  for (size_t k = 0; k < a.size(); ++k) {
    uint32_t x = a[k] & 0x7fffu, y = b[k] & 0x7fffu;
    finite &= x < 0x7f80 && y < 0x7f80;
    if (x == 0 || y == 0)
      continue;
    any = true;
    uint32_t sign = (a[k] ^ b[k]) >> 15;
    signs |= 1u << sign;
    // The place counts, the order of the factors does not.
    hash += placeFactors[k] * (uint64_t(std::max(x, y)) << 16 | std::min(x, y) << 1 | sign);
  }
  if (!finite) {
    float value = asFloat(c);
    for (size_t k = 0; k < a.size(); ++k)
      value += bf16ToF32(a[k]) * bf16ToF32(b[k]);
    return std::isnan(value) ? nan : std::bit_cast<uint32_t>(value);
  }
  if (!any)
    return c;
  if (!isZero(c))
    signs |= 1u << (c >> 31);
  hash = mix(mix(0xbb67ae8584caa73bu, hash), isZero(c) ? 0 : c);
  // Of terms of one sign so is the sum.
  uint32_t sign = signs == 3 ? uint32_t(hash >> 24 & 1) : signs >> 1;
  return sign << 31 | magnitude(hash);
}

} // namespace gemma::emu
