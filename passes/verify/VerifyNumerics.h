// Translation validation: the interpreter runs the step functions before and after every pass, and
// a pass that changes what they compute fails.
#pragma once

#include "mlir/Pass/PassManager.h"

#include <cstdint>
#include <map>
#include <string>

namespace gemma::passes {

struct NumericsOptions {
  /// Of the weights and the batches.
  uint64_t seed = 1;
  /// A module with more weights is not run; a remark says so.
  int64_t maxWeights = 50'000'000;
  /// Passes, by argument, that change the arithmetic: how far they may move an output,
  /// max|d| / max|ref|, in place of what they declare (declaredBound() of passes/Passes.h). All
  /// others must keep every bit.
  std::map<std::string, double> bounds{};
};

/// Adds the checks to a pass manager on a module. Call it when the pipeline is complete: a last
/// pass is added that fails after a difference and says what was checked. The context runs single
/// threaded from then on.
///
/// Run are `@step` and its variants, as long as the module has them, with random weights: a prefill
/// step of two sequences of different lengths, longer than the window if that is short, then a
/// decode step with both. A variant whose condition excludes the prefill step gets the same tokens
/// one by one. Compared are logits and caches. The error names the pass and the first node whose
/// output differs.
void verifyNumerics(mlir::PassManager &pm, const NumericsOptions &options);

/// Registers `gemma-test-break-step`, which makes a step compute something slightly different, to
/// see that the checks find it.
void registerTestBreakStepPass();

} // namespace gemma::passes
