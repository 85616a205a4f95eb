// What a launch has to do at least: floating-point operations and bytes, from the program alone.
//
// Source of the operations: the cost model of the spec pages (test/data/spec, the costs page): 2 a
// weight and row of every contraction, the head for the rows whose logits are wanted, and
// 4·heads·D for every visible key of every query. Norms, rope and activations count as nothing.
#pragma once

#include "runtime/abi/Program.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gemma::measure {

/// One step: for each row how many tokens its sequence has and how many are new.
struct StepShape {
  struct Row {
    int64_t cached = 0;
    int64_t fresh = 1;
  };
  std::vector<Row> rows;
  int64_t logitRows = 1;

  /// T, B, Q, S, R.
  StepSizes sizes() const;
};

struct Cost {
  double flops = 0;
  /// Every byte that must come from or go to memory once: weights, activations, visible keys and
  /// values, logits.
  double bytes = 0;

  Cost &operator+=(const Cost &other) {
    flops += other.flops;
    bytes += other.bytes;
    return *this;
  }
};

/// The cost of launch `launch`. Activations are what the launch may touch at the program's limits,
/// scaled to the step's tokens.
Cost launchCost(const Program &program, const Launch &launch, const StepShape &shape);

/// The sum over a variant's launches.
Cost stepCost(const Program &program, const Variant &variant, const StepShape &shape);

/// The sum over the steps that append `count` tokens, at most `chunk` at a time, to a sequence of
/// `cached`; with the logits of every step's last token, or of the last step's only. Nothing if
/// there is no variant for a step.
std::optional<Cost> appendCost(const Program &program, int64_t cached, int64_t count, int64_t chunk,
                               bool everyLogits);

/// The launch's nodes for people, without the layer: "attn.qk_norm attn.rope". Of one that computes
/// no node whole the kernel, without its hash: "(quantize)".
std::string nodesOf(const Program &program, const Launch &launch);

/// Most launches of a layer among a variant's; a launch belongs to the layer of its last node (an
/// epilogue fused into the next layer's first launch counts there), those after the layers to none.
int64_t launchesPerLayer(const Variant &variant);

} // namespace gemma::measure
