// The limit loops for AVX2 and FMA.
#define GEMMA_TARGET __attribute__((target("avx2,fma")))
#include "tools/measure/LimitLoopsOf.h"

namespace gemma::measure {
namespace {

struct Avx2 {
  using Words = __m256i;
  using Floats = __m256;
  static constexpr int chains = 12;

  GEMMA_TARGET static Words load(const char *from) {
    return _mm256_load_si256(reinterpret_cast<const __m256i *>(from));
  }
  GEMMA_TARGET static void store(char *to, Words words) {
    _mm256_store_si256(reinterpret_cast<__m256i *>(to), words);
  }
  GEMMA_TARGET static void stream(char *to, Words words) {
    _mm256_stream_si256(reinterpret_cast<__m256i *>(to), words);
  }
  GEMMA_TARGET static Words exclusiveOr(Words a, Words b) { return _mm256_xor_si256(a, b); }

  GEMMA_TARGET static void store(float *to, Floats values) { _mm256_store_ps(to, values); }
  GEMMA_TARGET static Floats broadcast(float value) { return _mm256_set1_ps(value); }
  GEMMA_TARGET static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  GEMMA_TARGET static Floats multiplyAdd(Floats a, Floats b, Floats c) {
    return _mm256_fmadd_ps(a, b, c);
  }
};

} // namespace

const LimitLoops limitLoopsAvx2 = LoopsOf<Avx2>::table("AVX2 and FMA");

} // namespace gemma::measure
