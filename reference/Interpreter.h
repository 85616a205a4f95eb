// Runs a `step` function of L1 or L2, node by node, in f64: what every compiled program is compared
// with. Groups are run as their regions.
#pragma once

#include "reference/Evaluate.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace gemma::reference {

struct StepResult {
  /// The function's results without the caches.
  std::vector<NodeValue> outputs;
  /// The first output: [R, V].
  const Tensor &logits() const { return std::get<Tensor>(outputs.front()); }
};

/// Sees every tensor that an op outside and inside groups gives (the groups' own results are those
/// of ops inside).
using Observer = std::function<void(mlir::Operation *, unsigned result, const Tensor &)>;

/// Asked before each op for each operand, whose value is `own`: a value to take instead, so that a
/// node can be fed with the output of another implementation.
using InputOverride = std::function<std::optional<NodeValue>(mlir::Operation *, unsigned operand,
                                                             const NodeValue &own)>;

class Interpreter {
public:
  /// `module` and `weights` must outlive this.
  Interpreter(mlir::ModuleOp module, WeightSource &weights)
      : module(module), weights(module, weights) {}

  /// One step: the arguments are given by their types, first ids tokens [T], second ids logit rows
  /// [R], caches as the steps before left them. On an error no cache changes.
  Expected<StepResult> step(const Batch &batch, const Ids &tokens, const Ids &logitRows,
                            mlir::StringRef function = "step");

  /// One op alone; a group's inputs are the values it uses from outside, in the order of
  /// mlir::getUsedValuesDefinedAbove.
  Expected<std::vector<NodeValue>> runNode(mlir::Operation *op, std::span<const NodeValue> inputs);

  void observe(Observer callback) { observer = std::move(callback); }
  void overrideInputs(InputOverride callback) { inputOverride = std::move(callback); }

  /// What the layer's cache holds of a sequence; null if nothing. `symbol`: the program.cache,
  /// "c3".
  const KeyValues *cache(mlir::StringRef symbol, int64_t sequence = 0) const;
  /// Forgets a sequence in every cache.
  void drop(int64_t sequence);

private:
  class Frame;

  mlir::ModuleOp module;
  LoadedWeights weights;
  std::map<std::string, CacheValue> caches; ///< by program.cache
  Observer observer;
  InputOverride inputOverride;
};

} // namespace gemma::reference
