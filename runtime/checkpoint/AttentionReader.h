// The attention part of config.json: head counts and widths, window and rotary embedding of both
// layer kinds.
#pragma once

#include "runtime/checkpoint/ModelConfig.h"
#include "runtime/support/JsonObject.h"

namespace gemma {

// Bounds that keep every later product (elements and bytes of a tensor, their sum over a model) far
// inside 64 bits; 30 to 500 times what the published models have.
inline constexpr int64_t kMaxWidth = int64_t(1) << 20;
inline constexpr int64_t kMaxHeads = 1 << 14;
inline constexpr int64_t kMaxHeadDim = 1 << 14;
inline constexpr int64_t kMaxPositions = int64_t(1) << 31;

/// The official name of a layer kind, as in layer_types.
std::string_view layerTypeName(LayerKind kind);

/// Reads `sliding` and `global` of `config`, whose heads and layerKinds are set (or zero and empty
/// where they had problems). `text`: the text model's object. A kind that no layer has stays zero,
/// so that equal models compare equal. Problems go to text.problems().
///
/// The global layers' sizes stand in global_head_dim and num_global_key_value_heads or, as newer
/// official classes write them, in per_layer_config: { "05": { "head_dim": ...,
/// "num_key_value_heads":
/// ... }, ... }.
void readAttention(const JsonObject &text, ModelConfig &config);

} // namespace gemma
