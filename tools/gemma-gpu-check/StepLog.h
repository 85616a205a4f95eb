// What the launches of a case wrote.
#pragma once

#include "runtime/engine/Context.h"
#include "tools/gemma-gpu-check/Cases.h"

#include <functional>
#include <string>
#include <vector>

namespace gemma::check {

/// What a launch wrote into one of its arguments: three of its rows, and all rows' size.
struct Written {
  std::string name; ///< "CASE/STEP/LAUNCH.ARGUMENT"
  std::string kernel, nodes;
  ScalarType type = ScalarType::F32;
  int64_t rows = 0;             ///< of these three, or fewer
  int64_t elements = 0;         ///< of a row
  std::vector<double> values;   ///< [rows, elements]
  std::vector<std::byte> bytes; ///< the same as they lie in memory
  double rms = 0;               ///< over all rows
};

/// Runs a case in a new context's sequences. `took` is told of each written argument, in order, for
/// the last two steps of the case.
Status runCase(Context &context, const Case &what,
               const std::function<void(const Written &)> &took);

} // namespace gemma::check
