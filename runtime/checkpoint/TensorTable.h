// Names, types, shapes and places of the text model's tensors; no data.
#pragma once

#include "runtime/support/ScalarType.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gemma {

/// One tensor of a checkpoint.
struct TensorInfo {
  std::string fileName; ///< as the file spells the name, prefix included
  ScalarType type = ScalarType::BF16;
  std::vector<int64_t> shape;
  uint32_t file = 0;   ///< index into Checkpoint::files()
  uint64_t offset = 0; ///< of the first byte, from the start of the file
  uint64_t bytes = 0;
};

/// Canonical name -> tensor. A canonical name is the file's name without the prefix that the
/// official class puts before the text model (`model.language_model.` or `model.`):
///   embed_tokens.weight, norm.weight, lm_head.weight (untied models only),
///   layers.N.{input_layernorm, post_attention_layernorm, pre_feedforward_layernorm,
///             post_feedforward_layernorm}.weight, layers.N.layer_scalar,
///   layers.N.self_attn.{q_proj, k_proj, v_proj, o_proj, q_norm, k_norm}.weight,
///   layers.N.mlp.{gate_proj, up_proj, down_proj}.weight
using TensorTable = std::map<std::string, TensorInfo>;

} // namespace gemma
