// The 16 rows of a panel lie side by side in vectors (an extension that clang and gcc share), in
// functions compiled for several instruction sets. Each row's sums run in the order of its columns
// and CMakeLists.txt forbids contraction to FMA, so that all give the same bits.
#include "runtime/weights/Quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

// Vectors longer than the instruction set's are only passed to what is inlined.
#pragma GCC diagnostic ignored "-Wpsabi"

#define GEMMA_INLINE [[gnu::always_inline]] inline

namespace gemma {

namespace {

// One element a row.
using Lanes [[gnu::vector_size(4 * panelLanes)]] = float;
using Bits [[gnu::vector_size(4 * panelLanes)]] = uint32_t;
using Integers [[gnu::vector_size(4 * panelLanes)]] = int32_t;

// Casts between vectors of one size keep the bits; a function that is not always inlined, as
// std::bit_cast, would pass these vectors otherwise in each instruction set.
GEMMA_INLINE Bits asBits(Lanes value) { return Bits(value); }
GEMMA_INLINE Lanes asFloats(Bits bits) { return Lanes(bits); }

/// The scales that are tried for i4 are m / divisor, m the element of largest magnitude: around -8,
/// at which m has the code -8 and nothing is clipped but what is as large and of the other sign.
constexpr std::array<float, 11> int4Divisors = {-8.0F, -7.7F, -8.3F, -7.4F, -8.6F, -7.1F,
                                                -8.9F, -6.8F, -9.2F, -6.5F, -9.5F};

/// Nearest integers, ties to even, of |value| < 2^22.
GEMMA_INLINE Lanes nearest(Lanes value) { return (value + 0x1.8p23F) - 0x1.8p23F; }

/// The nearest values of f16 (ties to even), as floats; beyond its range the largest.
GEMMA_INLINE Lanes roundToHalf(Lanes value) {
  Bits bits = asBits(value);
  Bits sign = bits & 0x80000000U;
  Bits rounded = (bits ^ sign) + 0xfffU + ((bits >> 13) & 1U);
  Lanes normal = asFloats(rounded & ~0x1fffU);
  // Below 2^-14 f16 is a grid of 2^-24, as float is between 1/2 and 1.
  Lanes magnitude = asFloats(bits ^ sign);
  Lanes subnormal = (magnitude + 0.5F) - 0.5F;
  Lanes half = magnitude < 0x1p-14F ? subnormal : normal;
  half = half > 65504.0F ? Lanes{} + 65504.0F : half;
  return asFloats(asBits(half) | sign);
}

/// The f16 of values that roundToHalf() gave.
GEMMA_INLINE Bits halfBits(Lanes value) {
  Bits bits = asBits(value);
  Bits magnitude = bits & 0x7fffffffU;
  Lanes positive = asFloats(magnitude);
  Bits normal = (magnitude >> 13) - (112U << 10);
  Bits subnormal = __builtin_convertvector(positive * 0x1p24F, Bits);
  return ((bits >> 16) & 0x8000U) | (positive < 0x1p-14F ? subnormal : normal);
}

GEMMA_INLINE Lanes inverseOf(Lanes scale) { return scale != 0.0F ? 1.0F / scale : Lanes{}; }

template <int least, int most> GEMMA_INLINE Lanes codeOf(Lanes x, Lanes inverse) {
  Lanes code = nearest(x * inverse);
  code = code > float(most) ? Lanes{} + float(most) : code;
  return code < float(least) ? Lanes{} + float(least) : code;
}

GEMMA_INLINE Lanes column(const GroupValues &x, size_t k) {
  Lanes lanes;
  std::memcpy(&lanes, x[k].data(), sizeof lanes);
  return lanes;
}

/// The best scales so far and their Σ (x - code * scale)².
struct Best {
  Lanes scale = Lanes{};
  Lanes error = Lanes{} + HUGE_VALF;
};

template <int least, int most>
GEMMA_INLINE void tryScale(const GroupValues &x, Lanes scale, Best &best) {
  Lanes inverse = inverseOf(scale), error{};
  for (size_t k = 0; k < groupColumns; ++k) {
    Lanes values = column(x, k);
    Lanes rest = values - codeOf<least, most>(values, inverse) * scale;
    error += rest * rest;
  }
  best.scale = error < best.error ? scale : best.scale;
  best.error = error < best.error ? error : best.error;
}

/// The scales with which these ones' codes come nearest to x: Σ x·code / Σ code².
template <int least, int most> GEMMA_INLINE Lanes fitScale(const GroupValues &x, Lanes scale) {
  Lanes inverse = inverseOf(scale), products{}, squares{};
  for (size_t k = 0; k < groupColumns; ++k) {
    Lanes values = column(x, k), code = codeOf<least, most>(values, inverse);
    products += values * code;
    squares += code * code;
  }
  return roundToHalf(squares > 0.0F ? products / squares : Lanes{});
}

GEMMA_INLINE Lanes searchInt4Scale(const GroupValues &x, Lanes largest) {
  Best best;
  for (float divisor : int4Divisors)
    tryScale<-8, 7>(x, roundToHalf(largest / divisor), best);
  tryScale<-8, 7>(x, fitScale<-8, 7>(x, best.scale), best);
  return best.scale;
}

/// Codes of columns 4j to 4j + 3, a byte each, the first lowest; `offset` added.
template <int least, int most>
GEMMA_INLINE Bits quadCodes(const GroupValues &x, size_t j, Lanes inverse, float offset) {
  Bits out{};
  for (size_t i = 0; i < 4; ++i) {
    Lanes code = codeOf<least, most>(column(x, 4 * j + i), inverse) + offset;
    out |= Bits(__builtin_convertvector(code, Integers)) << uint32_t(8 * i);
  }
  return out;
}

GEMMA_INLINE uint32_t quantizeLanes(ScalarType storage, const GroupValues &x, std::byte *codes,
                                    uint16_t *scales) {
  Lanes largest{};
  Bits magnitude{};
  for (size_t k = 0; k < groupColumns; ++k) {
    Lanes values = column(x, k);
    Bits bits = asBits(values) & 0x7fffffffU;
    largest = bits > magnitude ? values : largest;
    magnitude = bits > magnitude ? bits : magnitude;
  }
  uint32_t worst = 0;
  for (size_t r = 0; r < panelLanes; ++r)
    worst = magnitude[r] > worst ? magnitude[r] : worst;
  if (worst > std::bit_cast<uint32_t>(quantizedLimit(storage)))
    return worst;

  Lanes scale = storage == ScalarType::I4 ? searchInt4Scale(x, largest)
                                          : roundToHalf(asFloats(magnitude) / 127.0F);
  Bits half = halfBits(scale);
  for (size_t r = 0; r < panelLanes; ++r)
    scales[r] = uint16_t(half[r]);
  Lanes inverse = inverseOf(scale);
  if (storage == ScalarType::I4)
    for (size_t j = 0; j < 4; ++j) {
      Bits quad = quadCodes<-8, 7>(x, j, inverse, 8.0F) | quadCodes<-8, 7>(x, j + 4, inverse, 8.0F)
                                                              << 4U;
      std::memcpy(codes + j * sizeof quad, &quad, sizeof quad);
    }
  else
    for (size_t j = 0; j < 8; ++j) {
      Bits quad = quadCodes<-127, 127>(x, j, inverse, 128.0F);
      std::memcpy(codes + j * sizeof quad, &quad, sizeof quad);
    }
  return worst;
}

uint32_t quantizeBaseline(ScalarType storage, const GroupValues &x, std::byte *codes,
                          uint16_t *scales) {
  return quantizeLanes(storage, x, codes, scales);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] uint32_t quantizeAvx2(ScalarType storage, const GroupValues &x,
                                              std::byte *codes, uint16_t *scales) {
  return quantizeLanes(storage, x, codes, scales);
}

[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] uint32_t
quantizeAvx512(ScalarType storage, const GroupValues &x, std::byte *codes, uint16_t *scales) {
  return quantizeLanes(storage, x, codes, scales);
}
#endif

} // namespace

float quantizedLimit(ScalarType storage) {
  return storage == ScalarType::I8 ? 65504.0F * 127 : 65504.0F * 8;
}

std::span<const QuantizeVariant> quantizeVariants() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  static const QuantizeVariant variants[] = {
      {"avx512",
       __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"),
       quantizeAvx512},
      {"avx2", bool(__builtin_cpu_supports("avx2")), quantizeAvx2},
      {"baseline", true, quantizeBaseline},
  };
#else
  static const QuantizeVariant variants[] = {{"baseline", true, quantizeBaseline}};
#endif
  return variants;
}

uint32_t quantizeGroup(ScalarType storage, const GroupValues &x, std::byte *codes,
                       uint16_t *scales) {
  static auto *const fastest =
      std::ranges::find(quantizeVariants(), true, &QuantizeVariant::runs)->quantize;
  return fastest(storage, x, codes, scales);
}

} // namespace gemma
