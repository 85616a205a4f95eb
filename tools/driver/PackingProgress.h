// How far the packing of weights is.
#pragma once

#include <chrono>
#include <cstdint>

namespace gemma::driver {

/// Shows it on stderr, once it has taken 2 seconds: a line that is written over on a terminal, a
/// line every 5 seconds elsewhere.
class PackingProgress {
public:
  explicit PackingProgress(bool quiet);
  ~PackingProgress();
  PackingProgress(const PackingProgress &) = delete;
  PackingProgress &operator=(const PackingProgress &) = delete;

  /// Bytes.
  void update(uint64_t done, uint64_t total);

private:
  using Clock = std::chrono::steady_clock;

  bool quiet, terminal, shown = false;
  double last = 0; ///< seconds
  Clock::time_point start = Clock::now();
};

} // namespace gemma::driver
