// What every measurement needs: a clock, series of rounds, progress, Ctrl-C.
#pragma once

#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace gemma::measure {

using Json = nlohmann::ordered_json;

class Stopwatch {
public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

private:
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

/// One value a round; larger is better.
struct Series {
  std::vector<double> values;

  void add(double value) { values.push_back(value); }
  double median() const; ///< 0 if empty; the mean of the two middle ones of an even number
  double best() const;   ///< 0 if empty
  /// median / best: 1 on a machine that does nothing else.
  double steadiness() const;
  Json json() const; ///< {"median", "best", "rounds"}
};

/// This series divided by another, round by round: what drifts in both cancels.
Series ratio(const Series &of, const Series &to);

/// What part of a limit was reached. The best round counts, above and below, each at its own
/// quietest moment: the machine cannot do more than its limit, and on one that others use too few
/// rounds are quiet for both.
struct Share {
  double best = 0;   ///< best of the one / best of the other
  double median = 0; ///< of the ratios, round by round

  Share() = default;
  Share(const Series &of, const Series &limit);
  Json json() const; ///< {"best", "median"}
};

/// A line on stderr, from 2 seconds on: written over on a terminal, every 5 seconds elsewhere.
class Progress {
public:
  Progress();
  ~Progress();
  void update(const std::string &what);

private:
  Stopwatch watch;
  double last = -10;
  bool terminal, shown = false;
};

/// Set by Ctrl-C. A second Ctrl-C ends the process at once.
extern std::atomic<bool> interrupted;
void catchInterrupts();

} // namespace gemma::measure
