// Running a step function of L1 or L2 on seeded random weights and batches.
#pragma once

#include "passes/VariantPlan.h"
#include "reference/Interpreter.h"

#include <string>
#include <vector>

namespace gemma::passes {

/// One step's input.
struct StepInput {
  reference::Batch batch;
  reference::Ids tokens, logitRows;
};

/// A few steps in a row, over the same sequences.
struct StepSchedule {
  std::vector<StepInput> steps;
  /// Whether every step is one that the condition of a variant lets through.
  bool satisfies(mlir::IntegerSet condition) const;
};

/// What the steps of one schedule gave.
struct StepTrace {
  /// An op's tensor: "step 1: layers[0].attn.rope (q)".
  std::vector<std::pair<std::string, reference::Tensor>> nodes;
  /// Logits and caches: "step 1: logits", "cache @c0, sequence 1: keys".
  std::vector<std::pair<std::string, reference::Tensor>> outputs;
};

/// The shapes of a step function that a schedule depends on.
struct StepShape {
  int64_t vocab = 0;
  int64_t window = 0;  ///< the smallest one, 0 if there is none
  int64_t weights = 0; ///< elements
  static StepShape of(mlir::ModuleOp module);
};

/// Prefill of two sequences in one step, then a decode step with both. With `single` the prefill
/// step's tokens come one by one.
StepSchedule randomSchedule(uint64_t seed, const StepShape &shape, bool single);

/// Runs `schedule` from empty caches.
Expected<StepTrace> traceStep(mlir::ModuleOp module, llvm::StringRef function,
                              const StepSchedule &schedule, uint64_t seed);

} // namespace gemma::passes
