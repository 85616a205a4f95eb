// The limit loops for SSE2.
#define GEMMA_TARGET __attribute__((target("sse2")))
#include "tools/measure/LimitLoopsOf.h"

namespace gemma::measure {
namespace {

struct Sse2 {
  using Words = __m128i;
  using Floats = __m128;
  static constexpr int chains = 12;

  GEMMA_TARGET static Words load(const char *from) {
    return _mm_load_si128(reinterpret_cast<const __m128i *>(from));
  }
  GEMMA_TARGET static void store(char *to, Words words) {
    _mm_store_si128(reinterpret_cast<__m128i *>(to), words);
  }
  GEMMA_TARGET static void stream(char *to, Words words) {
    _mm_stream_si128(reinterpret_cast<__m128i *>(to), words);
  }
  GEMMA_TARGET static Words exclusiveOr(Words a, Words b) { return _mm_xor_si128(a, b); }

  GEMMA_TARGET static void store(float *to, Floats values) { _mm_store_ps(to, values); }
  GEMMA_TARGET static Floats broadcast(float value) { return _mm_set1_ps(value); }
  GEMMA_TARGET static Floats add(Floats a, Floats b) { return _mm_add_ps(a, b); }
  GEMMA_TARGET static Floats multiplyAdd(Floats a, Floats b, Floats c) {
    return _mm_add_ps(_mm_mul_ps(a, b), c);
  }
};

} // namespace

const LimitLoops limitLoopsSse2 = LoopsOf<Sse2>::table("SSE2");

} // namespace gemma::measure
