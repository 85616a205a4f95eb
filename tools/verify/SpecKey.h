// Spec keys as the spec pages write them: google/gemma-4-12B@1.0:layers[*].attn.core.
#pragma once

#include "runtime/support/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gemma::verify {

/// Which nodes of a model a key means.
struct NodePattern {
  bool inLayers = false;               ///< layers[...], else a node outside of the layers
  int64_t first = 0, last = INT64_MAX; ///< layers, both included
  std::string node;                    ///< "attn.core"; empty with inLayers: all of the layer

  /// `key` is a node's location, "layers[3].attn.core".
  bool matches(std::string_view key) const;
};

/// A key in its parts: MODEL[@VERSION][:NODES].
struct SpecKey {
  std::string model, version, nodes;
};
SpecKey splitSpecKey(std::string_view text);

/// Reads embed, layers[*].attn.core, layers[3], layers[0-5].mlp, layers[0..5]. A node's name alone
/// means it in every layer, and a prefix up to a dot all nodes below.
Expected<NodePattern> parseNodePattern(std::string_view text);

/// Splits "layers[3].attn.core" into 3 and "attn.core"; -1 for a node outside of the layers.
std::pair<int64_t, std::string_view> splitNodeKey(std::string_view key);

/// Those of `names` that look most like `text` (edit distance), nearest first; none that share
/// nothing with it.
std::vector<std::string> nearest(std::string_view text, const std::vector<std::string> &names,
                                 size_t most = 3);

} // namespace gemma::verify
