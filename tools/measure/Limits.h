// Measures what the machine can do at most, in the same rounds as what is compared with it.
#pragma once

#include "runtime/device/WorkerPool.h"
#include "runtime/support/Memory.h"
#include "runtime/support/Status.h"
#include "tools/measure/LimitLoops.h"
#include "tools/measure/Measure.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace gemma::measure {

/// The limits of a number of threads, a value a round.
struct LimitSeries {
  unsigned threads = 1;
  Series read;  ///< bytes/s; the best of plain and prefetched reads, of one stream and several
  Series copy;  ///< bytes/s read and written together; the better of both kinds of stores
  Series flops; ///< f32 multiply-adds, 2 operations each, a second
};

class LimitMeter {
public:
  /// `bytes` of buffer, rounded up to MiB. Measures 1 thread and, if more, `threads`; with
  /// `onlyMost` just the latter. Refused if the memory is not there.
  static Expected<LimitMeter> create(uint64_t bytes, unsigned threads, bool onlyMost);

  /// One round of everything; some 0.6 s for a GiB and a thread count. Stops early on Ctrl-C.
  void measure(Progress &progress);

  uint64_t bufferBytes() const { return buffer.size(); }
  const char *isa() const { return loops->isa; }
  const std::vector<LimitSeries> &series() const { return limits; }
  /// Of the most threads: what a multi-threaded measurement is compared with.
  const LimitSeries &most() const { return limits.back(); }
  /// The lowest steadiness of any limit.
  double steadiness() const;
  Json json() const;
  void print() const;

private:
  const LimitLoops *loops = nullptr;
  PageMemory buffer;
  std::vector<std::unique_ptr<WorkerPool>> pools;
  std::vector<LimitSeries> limits;
};

} // namespace gemma::measure
