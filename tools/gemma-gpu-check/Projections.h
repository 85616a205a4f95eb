// The kernels of a program that multiply a weight with activations, one at a time.
#pragma once

#include "runtime/engine/Artifact.h"
#include "runtime/support/Status.h"

#include <functional>
#include <string>
#include <vector>

namespace gemma::check {

/// A launch of a projection in the variant that a step of so many tokens runs.
struct Projection {
  const Launch *launch = nullptr;
  const WeightRecipe *weight = nullptr;
  StepSizes sizes{};
  int64_t rows = 0; ///< of activations: tokens, or logit rows for the head
};

/// The distinct projections of a step: with `tokens` sequences of a token each, if `decode`, else a
/// prompt of so many tokens.
std::vector<Projection> projectionsOf(const Program &program, int64_t tokens, bool decode);

/// Times the projections of some steps, each alone, and the same products in cuBLAS where there is
/// one; with few tokens ours compute the norms before them too, which their nodes say. `print` is
/// told a JSON object's text each.
Status timeProjections(const Artifact &artifact, int ordinal, int64_t launches,
                       const std::function<void(const std::string &)> &print);

} // namespace gemma::check
