#include "runtime/checkpoint/Checkpoint.h"

namespace gemma {

/// The tensors of one decoder layer, as [out, in] matrices and vectors.
static void addLayer(TensorTable &table, const ModelConfig &config, int64_t layer) {
  const int64_t hidden = config.hidden, intermediate = config.intermediate;
  const AttentionConfig &attention = config.attention(config.layerKinds[size_t(layer)]);
  const int64_t queryWidth = config.heads * attention.headDim;
  const int64_t keyWidth = attention.kvHeads * attention.headDim;
  auto add = [&](const char *name, std::vector<int64_t> shape) {
    table["layers." + std::to_string(layer) + "." + name].shape = std::move(shape);
  };

  add("input_layernorm.weight", {hidden});
  add("self_attn.q_proj.weight", {queryWidth, hidden});
  add("self_attn.k_proj.weight", {keyWidth, hidden});
  if (!attention.valuesAreKeys)
    add("self_attn.v_proj.weight", {keyWidth, hidden});
  add("self_attn.q_norm.weight", {attention.headDim});
  add("self_attn.k_norm.weight", {attention.headDim});
  add("self_attn.o_proj.weight", {hidden, queryWidth});
  add("post_attention_layernorm.weight", {hidden});
  add("pre_feedforward_layernorm.weight", {hidden});
  add("mlp.gate_proj.weight", {intermediate, hidden});
  add("mlp.up_proj.weight", {intermediate, hidden});
  add("mlp.down_proj.weight", {hidden, intermediate});
  add("post_feedforward_layernorm.weight", {hidden});
  add("layer_scalar", {1});
}

TensorTable requiredTensors(const ModelConfig &config) {
  TensorTable table;
  table["embed_tokens.weight"].shape = {config.vocab, config.hidden};
  for (int64_t layer = 0; layer < config.layers(); ++layer)
    addLayer(table, config, layer);
  table["norm.weight"].shape = {config.hidden};
  if (!config.tiedHead)
    table["lm_head.weight"].shape = {config.vocab, config.hidden};
  return table;
}

} // namespace gemma
