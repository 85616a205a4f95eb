// Where the time of a run goes: every launch timed, summed by kind, compared with what the machine
// can do.
#pragma once

#include "runtime/engine/Context.h"
#include "tools/measure/LaunchCost.h"

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gemma::run {

/// What the machine does at most, measured in the same run.
struct MachineLimits {
  double readBytes = 0; ///< a second
  double flops = 0;     ///< of f32, a second
};

/// The launches of a variant with the same nodes, whatever the layer.
struct LaunchKindTime {
  std::string variant, nodes;
  uint64_t launches = 0;
  double seconds = 0;
  measure::Cost cost;
  /// What moving the bytes, or computing if that takes longer, would take at the limits.
  double leastSeconds = 0;
};

class Profile {
public:
  /// Observes the steps of a context, all of one sequence, until it dies or stop().
  Profile(Context &context, const Sequence &sequence);
  ~Profile() { stop(); }
  Profile(const Profile &) = delete;
  Profile &operator=(const Profile &) = delete;

  void stop();
  /// Measures the limits: a second or two.
  Status measureLimits();

  /// By falling seconds.
  std::vector<LaunchKindTime> kinds() const;
  /// From the first step's first launch to the last one's last launch.
  double seconds() const;
  /// A line a kind: launches, seconds, share, GB/s, GFLOP/s, fraction of the limit.
  std::string text() const;
  nlohmann::ordered_json json() const;
  /// Steps and launches as complete events of Chrome's trace format, which chrome://tracing and
  /// Perfetto open ("Trace Event Format", Google).
  Status writeTrace(const std::filesystem::path &path) const;

private:
  using Clock = std::chrono::steady_clock;

  struct Step {
    size_t variant = 0;
    measure::StepShape shape;
    double begin = 0, end = 0; ///< seconds
    size_t firstEvent = 0;
  };
  struct Event {
    uint32_t step = 0, launch = 0;
    double begin = 0, seconds = 0;
  };

  double now() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
  void beginStep(const StepResult &step);
  void afterLaunch(size_t launch);

  Context &context;
  const Sequence &sequence;
  Clock::time_point start = Clock::now();
  double mark = 0; ///< when what runs now began
  std::vector<Step> steps;
  std::vector<Event> events;
  MachineLimits limits;
};

} // namespace gemma::run
