// How far the packing of weights is.
#pragma once

#include <chrono>
#include <cstdint>

namespace gemma::driver {

/// Shows it on stderr, once it has taken 2 seconds: a line that is written over on a terminal, a
/// line every 5 seconds elsewhere.
class PackingProgress {
public:
  using Clock = std::chrono::steady_clock;

  explicit PackingProgress(bool quiet, Clock::time_point start = Clock::now());
  ~PackingProgress();
  PackingProgress(const PackingProgress &) = delete;
  PackingProgress &operator=(const PackingProgress &) = delete;

  /// Bytes.
  void update(uint64_t done, uint64_t total);

private:
  bool quiet, terminal, shown = false;
  double next = 2; ///< seconds after the start
  Clock::time_point start;
};

} // namespace gemma::driver
