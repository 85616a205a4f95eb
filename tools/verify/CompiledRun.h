// A compiled program at work: steps of one sequence, with what every launch wrote.
#pragma once

#include "reference/Tensor.h"
#include "reference/Values.h"
#include "runtime/engine/Context.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gemma::verify {

/// An op of L1 that gives a tensor: its spec key and which op of that key it is (0: queries, 1:
/// keys).
struct NodeId {
  std::string key;
  int occurrence = 0;
  auto operator<=>(const NodeId &) const = default;
};

/// Names the ops of @step that launches compute, in program order.
std::map<mlir::Operation *, NodeId> nameNodes(mlir::ModuleOp module);

/// Whether a node has a row for each wanted logit, not for each token.
bool hasLogitRows(const std::string &key);

using NodeOutputs = std::map<NodeId, reference::Tensor>;

class CompiledRun {
public:
  /// `module`: L1 of the program's configuration; gives the shapes of nodes' rows.
  static Expected<std::unique_ptr<CompiledRun>> start(std::shared_ptr<const Model> model,
                                                      mlir::ModuleOp module);

  /// Appends tokens in one step. With `nodes` not null (an unfused program) every node's output is
  /// put there. Gives the logits of all tokens, or of the last one: [R, V].
  Expected<reference::Tensor> step(std::span<const int32_t> tokens, bool allLogits,
                                   NodeOutputs *nodes);

  /// Keys and values that a cache holds of positions [first, length()).
  reference::KeyValues cached(size_t cache, int64_t first) const;
  int64_t length() const { return sequence->length(); }

private:
  CompiledRun() = default;
  void afterLaunch(size_t variant, size_t launch, int64_t tokens, int64_t rows, NodeOutputs &nodes);

  std::shared_ptr<const Model> model;
  std::unique_ptr<Context> context;
  std::unique_ptr<Sequence> sequence;
  std::map<NodeId, std::vector<int64_t>> rowShapes;
  std::map<std::string, int> occurrences; ///< seen of a key in this step
};

} // namespace gemma::verify
