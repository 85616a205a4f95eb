// The limit loops for SSE2.
#include "tools/gemma-bench/LimitLoops.h"

#include <immintrin.h>

#define GEMMA_TARGET __attribute__((target("sse2")))

namespace gemma::bench {
namespace {

constexpr size_t vectorBytes = 16;
/// Vectors of one turn of a loop.
constexpr size_t unroll = 8;
/// Chains of multiply-adds: at least latency times throughput, at most the registers.
constexpr int chains = 12;

GEMMA_TARGET uint64_t fold(const __m128i (&sums)[unroll]) {
  __m128i all = sums[0];
  for (size_t i = 1; i < unroll; ++i)
    all = _mm_xor_si128(all, sums[i]);
  alignas(64) uint64_t words[vectorBytes / 8];
  _mm_store_si128(reinterpret_cast<__m128i *>(words), all);
  uint64_t result = 0;
  for (uint64_t word : words)
    result ^= word;
  return result;
}

GEMMA_TARGET uint64_t read(const char *from, size_t bytes) {
  __m128i sums[unroll] = {};
  for (const char *end = from + bytes; from != end; from += unroll * vectorBytes)
    for (size_t i = 0; i < unroll; ++i)
      sums[i] = _mm_xor_si128(
          sums[i], _mm_load_si128(reinterpret_cast<const __m128i *>(from + i * vectorBytes)));
  return fold(sums);
}

GEMMA_TARGET uint64_t readPrefetched(const char *from, size_t bytes) {
  __m128i sums[unroll] = {};
  for (const char *end = from + bytes; from != end; from += unroll * vectorBytes) {
    // A prefetch beyond the end is harmless: it never faults.
    for (size_t line = 0; line < unroll * vectorBytes; line += 64)
      _mm_prefetch(from + prefetchDistance + line, _MM_HINT_T1);
    for (size_t i = 0; i < unroll; ++i)
      sums[i] = _mm_xor_si128(
          sums[i], _mm_load_si128(reinterpret_cast<const __m128i *>(from + i * vectorBytes)));
  }
  return fold(sums);
}

GEMMA_TARGET void copy(char *to, const char *from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += vectorBytes)
    _mm_store_si128(reinterpret_cast<__m128i *>(to + at),
                    _mm_load_si128(reinterpret_cast<const __m128i *>(from + at)));
}

GEMMA_TARGET void copyStreaming(char *to, const char *from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += vectorBytes)
    _mm_stream_si128(reinterpret_cast<__m128i *>(to + at),
                     _mm_load_si128(reinterpret_cast<const __m128i *>(from + at)));
  _mm_sfence();
}

GEMMA_TARGET float multiplyAdd(uint64_t iterations) {
  // The chains converge to 1: no overflow and no denormals, however long it runs.
  __m128 factor = _mm_set1_ps(0.75f), addend = _mm_set1_ps(0.25f);
  __m128 sums[chains];
  for (int i = 0; i < chains; ++i)
    sums[i] = _mm_set1_ps(float(i));
  for (uint64_t n = 0; n < iterations; ++n)
    for (int i = 0; i < chains; ++i)
      sums[i] = _mm_add_ps(_mm_mul_ps(sums[i], factor), addend);
  __m128 all = sums[0];
  for (int i = 1; i < chains; ++i)
    all = _mm_add_ps(all, sums[i]);
  alignas(64) float lanes[vectorBytes / 4];
  _mm_store_ps(lanes, all);
  return lanes[0] + lanes[vectorBytes / 4 - 1];
}

} // namespace

const LimitLoops limitLoopsSse2 = {"SSE2",
                                   read,
                                   readPrefetched,
                                   copy,
                                   copyStreaming,
                                   multiplyAdd,
                                   uint64_t(chains) * (vectorBytes / 4) * 2};

} // namespace gemma::bench
