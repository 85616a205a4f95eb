// The hyperparameters of one Gemma 4 text model, read from config.json and fully checked.
//
// Source of names and meaning: the model's spec page (test/data/spec) and the published
// config.json.
#pragma once

#include "runtime/support/ScalarType.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gemma {

/// Which attention a decoder layer has.
enum class LayerKind : uint8_t { Sliding, Global };

/// Constants of the spec's `rope` node: pairs (i, i + rotary/2), inverse frequency
/// theta^(-2i/denominator) for i < active and 0 beyond.
struct RopeConfig {
  double theta = 0;
  int64_t rotary = 0;      ///< coordinates that take part; the head dimension in Gemma 4
  int64_t denominator = 0; ///< of the exponent; the head dimension in Gemma 4
  int64_t active = 0;      ///< pairs with a frequency other than 0

  bool operator==(const RopeConfig &) const = default;
};

/// Attention of one layer kind.
struct AttentionConfig {
  int64_t kvHeads = 0;
  int64_t headDim = 0;
  int64_t window = 0; ///< visible keys, the query's own included; 0: no window
  RopeConfig rope;
  bool valuesAreKeys = false; ///< V = v_norm(k_proj(x)): the layer has no v_proj tensor

  bool operator==(const AttentionConfig &) const = default;
};

struct ModelConfig {
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t heads = 0;                 ///< query heads, equal in both layer kinds
  std::vector<LayerKind> layerKinds; ///< one a layer
  AttentionConfig sliding;
  AttentionConfig global;
  double rmsEps = 0;
  double attentionScale = 1;     ///< 1 in Gemma 4
  std::optional<double> softcap; ///< of the logits
  bool tiedHead = true;
  int64_t maxPositions = 0; ///< max_position_embeddings; 262144 if absent
  ScalarType dtype = ScalarType::BF16;

  int64_t layers() const { return int64_t(layerKinds.size()); }
  const AttentionConfig &attention(LayerKind kind) const {
    return kind == LayerKind::Sliding ? sliding : global;
  }

  bool operator==(const ModelConfig &) const = default;
};

} // namespace gemma
