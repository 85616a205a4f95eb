// The modes of gemma-gpu-check. Each prints JSON objects, one a line, as it goes.
#pragma once

#include "runtime/support/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gemma::check {

struct CheckOptions {
  std::string artifact, weights, record;
  std::string device = "auto";
  std::vector<std::string> cases; ///< empty: all
  double bound = 0.02;            ///< of a launch's rms error, in shares of the values' rms
  int64_t steps = 32;             ///< that are timed
  int64_t cached = 0;             ///< positions before the decode steps that are timed
  int ordinal = 0;
};

/// What the device is.
Status printFacts(const CheckOptions &options);
/// The names of the cases, plain, one a line.
Status printCases(const CheckOptions &options);
/// Runs the cases and writes what the launches wrote.
Status recordCases(const CheckOptions &options);
/// Runs the cases with everything that kernels may not read set to NaN, and compares what each
/// launch wrote with the record. An error of kind BadInput if something differs.
Status checkCases(const CheckOptions &options);
/// Times projections one at a time, beside cuBLAS where there is one.
Status timeProducts(const CheckOptions &options);
/// Times what bounds every kernel: writing memory, and launches that do nothing.
Status timeLimits(const CheckOptions &options);
/// Times decoding and prompts.
Status timeSteps(const CheckOptions &options);

} // namespace gemma::check
