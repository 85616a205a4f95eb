// Other programs on the machine, made on purpose: processes that compute all the time.
#pragma once

#include "runtime/support/Status.h"

#include <cstdint>
#include <sys/types.h>
#include <vector>

namespace gemma::bench {

/// Processes that spin while they are let, in registers alone. They end with this object, or with
/// this process.
class BusyProcesses {
public:
  /// Starts `count`, all standing still. Before large memory is taken: a child shares its parent's
  /// pages, and the parent pays a copy for each that it writes afterwards.
  static Expected<BusyProcesses> start(int64_t count);

  BusyProcesses() = default;
  BusyProcesses(BusyProcesses &&other) noexcept : children(std::move(other.children)) {
    other.children.clear();
  }
  BusyProcesses &operator=(BusyProcesses &&other) noexcept {
    children.swap(other.children);
    return *this;
  }
  ~BusyProcesses();

  int64_t count() const { return int64_t(children.size()); }
  const std::vector<pid_t> &processes() const { return children; }
  /// Lets all spin, or stand still.
  void spin(bool on) const;

private:
  std::vector<pid_t> children;
};

/// The part of what they do alone that `threads` threads get beside `busy` others on `cores` cores
/// if the system shares its cores among all threads alike.
double fairShare(int64_t cores, int64_t threads, int64_t busy);

} // namespace gemma::bench
