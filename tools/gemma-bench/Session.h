// A model to measure: an artifact with made-up weights, and tokens to feed it.
#pragma once

#include "runtime/engine/Context.h"
#include "tools/gemma-bench/Bench.h"
#include "tools/measure/LaunchCost.h"
#include "tools/measure/Limits.h"

#include <memory>
#include <string>
#include <vector>

namespace gemma::bench {

class BenchSession {
public:
  /// Loads options.artifact, or compiles the built-in model for this processor. Weights are made
  /// up: time does not depend on their values, and a configuration alone can be measured. Numbers
  /// of tokens that were not given are filled in.
  static Expected<BenchSession> open(BenchOptions &options, Progress &progress);

  Context &context() { return *runner; }
  const Program &program() const { return model->program(); }
  const Model &loaded() const { return *model; }

  /// Takes tokens back until there are `length`, or else makes up so many (Sequence::makeUp).
  Status resize(int64_t length);
  /// One step of `count` tokens, with the last one's logits or none.
  Status step(int64_t count, bool logits);
  Json json() const;

private:
  std::span<const int32_t> tokens(int64_t count);

  std::shared_ptr<const Model> model;
  std::unique_ptr<Context> runner;
  std::unique_ptr<Sequence> sequence;
  std::vector<int32_t> drawn;
  std::string packedWeights; ///< empty: they are made up
};

/// A session, and the limits of its threads: what kernels and model measure in the same rounds.
struct LimitedSession {
  BenchSession session;
  LimitMeter limits;

  static Expected<LimitedSession> open(BenchOptions &options, Progress &progress);
};

} // namespace gemma::bench
