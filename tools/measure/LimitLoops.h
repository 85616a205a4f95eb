// What a processor can do at most, as loops: reading, copying, multiplying and adding.
//
// One table of functions an instruction set; each is written with intrinsics and compiled for that
// set by function attributes, so the program starts on any x86-64 processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gemma::measure {

struct LimitLoops {
  const char *isa;
  /// Reads all of [from, from + bytes), bytes a multiple of 1024; the result depends on all of it.
  uint64_t (*read)(const char *from, size_t bytes);
  /// The same with software prefetch some KiB ahead.
  uint64_t (*readPrefetched)(const char *from, size_t bytes);
  /// Both from `readStreams` places in turn: more pages at once for the processor's own prefetcher,
  /// which stops at the end of each.
  uint64_t (*readSpread)(const char *from, size_t bytes);
  uint64_t (*readSpreadPrefetched)(const char *from, size_t bytes);
  /// Copies with ordinary stores, and with stores that bypass the caches. 64-byte aligned.
  void (*copy)(char *to, const char *from, size_t bytes);
  void (*copyStreaming)(char *to, const char *from, size_t bytes);
  /// Independent chains of multiply-add on f32, from registers to registers.
  float (*multiplyAdd)(uint64_t iterations);
  /// Floating-point operations of one iteration, a multiply-add counting 2.
  uint64_t flopsPerIteration;
};

/// Bytes ahead of the reader: far enough for a core's line fill buffers, near enough for its L2.
inline constexpr size_t prefetchDistance = 8192;
/// The same for each of several streams, which share the L1.
inline constexpr size_t spreadPrefetchDistance = 1024;
inline constexpr size_t readStreams = 4;

extern const LimitLoops limitLoopsSse2, limitLoopsAvx2, limitLoopsAvx512;

/// The widest that this processor runs.
const LimitLoops &bestLimitLoops();

} // namespace gemma::measure
