// The limit loops for AVX-512.
#define GEMMA_TARGET __attribute__((target("avx512f")))
#include "tools/measure/LimitLoopsOf.h"

namespace gemma::measure {
namespace {

struct Avx512 {
  using Words = __m512i;
  using Floats = __m512;
  static constexpr int chains = 16;

  GEMMA_TARGET static Words load(const char *from) {
    return _mm512_load_si512(reinterpret_cast<const void *>(from));
  }
  GEMMA_TARGET static void store(char *to, Words words) {
    _mm512_store_si512(reinterpret_cast<void *>(to), words);
  }
  GEMMA_TARGET static void stream(char *to, Words words) {
    _mm512_stream_si512(reinterpret_cast<__m512i *>(to), words);
  }
  GEMMA_TARGET static Words exclusiveOr(Words a, Words b) { return _mm512_xor_si512(a, b); }

  GEMMA_TARGET static void store(float *to, Floats values) { _mm512_store_ps(to, values); }
  GEMMA_TARGET static Floats broadcast(float value) { return _mm512_set1_ps(value); }
  GEMMA_TARGET static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  GEMMA_TARGET static Floats multiplyAdd(Floats a, Floats b, Floats c) {
    return _mm512_fmadd_ps(a, b, c);
  }
};

} // namespace

const LimitLoops limitLoopsAvx512 = LoopsOf<Avx512>::table("AVX-512");

} // namespace gemma::measure
