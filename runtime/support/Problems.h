// Several faults found in one go, reported together.
#pragma once

#include "runtime/support/Status.h"

#include <cstddef>
#include <string>
#include <vector>

namespace gemma {

/// Collects one line a problem and keeps the first 20; the rest is counted. So a wrong file with a
/// million faults costs neither memory nor a screen.
class Problems {
public:
  static constexpr size_t limit = 20;

  /// `line`: where, expected, got; lower case, no full stop.
  void add(std::string line);
  /// An error's message counts as one problem.
  void add(const Error &error) { add(error.message); }

  bool empty() const { return total == 0; }
  size_t count() const { return total; }
  /// All lines in one BadInput error, and "and N more" if there are more. Must not be empty.
  Error error() const;

private:
  std::vector<std::string> lines;
  size_t total = 0;
};

} // namespace gemma
