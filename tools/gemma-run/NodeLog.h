// What every node of an unfused program computed, under the names of test/data/models/README.md.
#pragma once

#include "runtime/engine/Context.h"
#include "tools/gemma-run/TensorLog.h"

#include <map>
#include <string>

namespace gemma::run {

/// A tensor's name and which elements of a node's row it has.
struct NodeTensor {
  std::string name;
  int64_t begin = 0;
  std::vector<int64_t> shape; ///< of one row
};

/// The tensors that a node's output is written as. `key`: the node's spec key without the model,
/// "layers[3].attn.qkv_proj"; `part`: 0 for a node's first output, 1 for the next (queries and keys
/// of a rope); `length`: of the prompt; `elements`: of one row. A node without a name there keeps
/// its key ("KEY" or "KEY#1").
std::vector<NodeTensor> nodeTensors(const ModelConfig &config, const std::string &key, int part,
                                    int64_t length, int64_t elements);

/// Collects what launches write. Attach before the prompt is computed with logits of every position
/// (so that as many logit rows as tokens pass through).
class NodeLog {
public:
  NodeLog(Context &context, int64_t promptLength);
  ~NodeLog();

  /// A step of `tokens` tokens begins.
  void beginStep(int64_t tokens);
  const TensorLog &tensors() const { return log; }

private:
  void afterLaunch(size_t variant, size_t launch);

  Context &context;
  int64_t promptLength;
  int64_t stepTokens = 0;
  std::map<std::string, int> parts; ///< outputs seen of a node in this step
  TensorLog log;
};

} // namespace gemma::run
