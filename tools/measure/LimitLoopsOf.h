// The limit loops of any instruction set, over a trait of its registers.
//
// Included by one source an instruction set, which first defines GEMMA_TARGET, the attribute that
// compiles a function for that set. A trait has
//   Words, Floats         registers of integers and of f32
//   chains                independent multiply-adds: at least latency times throughput, at most the
//                         registers
//   load, store, stream   a register from or to aligned memory; stream bypasses the caches
//   exclusiveOr, broadcast, add, multiplyAdd (a * b + c), and store for floats
#pragma once

#include "tools/measure/LimitLoops.h"

#include <immintrin.h>

#ifndef GEMMA_TARGET
#error "define GEMMA_TARGET first"
#endif

namespace gemma::measure {
namespace {

template <typename Register> struct LoopsOf {
  using Words = typename Register::Words;
  using Floats = typename Register::Floats;
  static constexpr size_t vectorBytes = sizeof(Words);
  static constexpr size_t lanes = vectorBytes / sizeof(float);
  static constexpr int chains = Register::chains;
  /// Vectors of one turn of a loop.
  static constexpr size_t unroll = 8;

  GEMMA_TARGET static uint64_t fold(const Words (&sums)[unroll]) {
    Words all = sums[0];
    for (size_t i = 1; i < unroll; ++i)
      all = Register::exclusiveOr(all, sums[i]);
    alignas(64) uint64_t words[vectorBytes / 8];
    Register::store(reinterpret_cast<char *>(words), all);
    uint64_t result = 0;
    for (uint64_t word : words)
      result ^= word;
    return result;
  }

  GEMMA_TARGET static uint64_t read(const char *from, size_t bytes) {
    Words sums[unroll] = {};
    for (const char *end = from + bytes; from != end; from += unroll * vectorBytes)
      for (size_t i = 0; i < unroll; ++i)
        sums[i] = Register::exclusiveOr(sums[i], Register::load(from + i * vectorBytes));
    return fold(sums);
  }

  GEMMA_TARGET static uint64_t readPrefetched(const char *from, size_t bytes) {
    Words sums[unroll] = {};
    for (const char *end = from + bytes; from != end; from += unroll * vectorBytes) {
      // A prefetch beyond the end is harmless: it never faults.
      for (size_t line = 0; line < unroll * vectorBytes; line += 64)
        _mm_prefetch(from + prefetchDistance + line, _MM_HINT_T1);
      for (size_t i = 0; i < unroll; ++i)
        sums[i] = Register::exclusiveOr(sums[i], Register::load(from + i * vectorBytes));
    }
    return fold(sums);
  }

  template <bool prefetch>
  GEMMA_TARGET static uint64_t readFromPlaces(const char *from, size_t bytes) {
    constexpr size_t turn = 1024 / readStreams;
    Words sums[unroll] = {};
    for (const char *end = from + bytes / readStreams; from != end; from += turn)
      for (size_t stream = 0; stream < readStreams; ++stream) {
        const char *at = from + stream * (bytes / readStreams);
        if constexpr (prefetch)
          for (size_t line = 0; line < turn; line += 64)
            _mm_prefetch(at + spreadPrefetchDistance + line, _MM_HINT_T0);
        for (size_t i = 0; i < turn / vectorBytes; ++i)
          sums[i % unroll] =
              Register::exclusiveOr(sums[i % unroll], Register::load(at + i * vectorBytes));
      }
    return fold(sums);
  }

  GEMMA_TARGET static void copy(char *to, const char *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += vectorBytes)
      Register::store(to + at, Register::load(from + at));
  }

  GEMMA_TARGET static void copyStreaming(char *to, const char *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += vectorBytes)
      Register::stream(to + at, Register::load(from + at));
    _mm_sfence();
  }

  GEMMA_TARGET static float multiplyAdd(uint64_t iterations) {
    // The chains converge to 1: no overflow and no denormals, however long it runs.
    Floats factor = Register::broadcast(0.75f), addend = Register::broadcast(0.25f);
    Floats sums[chains];
    for (int i = 0; i < chains; ++i)
      sums[i] = Register::broadcast(float(i));
    for (uint64_t n = 0; n < iterations; ++n)
      for (int i = 0; i < chains; ++i)
        sums[i] = Register::multiplyAdd(sums[i], factor, addend);
    Floats all = sums[0];
    for (int i = 1; i < chains; ++i)
      all = Register::add(all, sums[i]);
    alignas(64) float values[lanes];
    Register::store(values, all);
    return values[0] + values[lanes - 1];
  }

  static constexpr LimitLoops table(const char *isa) noexcept {
    return {isa,  read,          readPrefetched, readFromPlaces<false>,       readFromPlaces<true>,
            copy, copyStreaming, multiplyAdd,    uint64_t(chains) * lanes * 2};
  }
};

} // namespace
} // namespace gemma::measure
