#include "tools/gemma-run/NodeLog.h"

#include "runtime/abi/ProgramSizes.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace gemma::run {

namespace {

/// "layers[3].attn.core" as 3 and "attn.core"; nothing for a node outside of the layers.
struct LayerNode {
  int64_t layer;
  std::string_view node;
};

std::optional<LayerNode> layerNode(std::string_view key) {
  constexpr std::string_view prefix = "layers[";
  if (!key.starts_with(prefix))
    return std::nullopt;
  key.remove_prefix(prefix.size());
  int64_t layer = 0;
  auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
  key.remove_prefix(size_t(end - key.data()));
  if (error != std::errc() || !key.starts_with("]."))
    return std::nullopt;
  return LayerNode{layer, key.substr(2)};
}

/// Nodes whose whole output has one name.
std::string_view plainName(std::string_view node) {
  static constexpr std::pair<std::string_view, std::string_view> names[] = {
      {"input_norm", "input_layernorm"},
      {"attn.core", "attn_out"},
      {"attn.o_proj", "o_proj"},
      {"post_mix_norm", "post_attention_layernorm"},
      {"attn_residual", "attn_residual"},
      {"post_attn_norm", "pre_feedforward_layernorm"},
      {"mlp.act", "mlp_act"},
      {"mlp.down", "down_proj"},
      {"post_ffn_norm", "post_feedforward_layernorm"},
  };
  for (auto [from, to] : names)
    if (from == node)
      return to;
  return {};
}

} // namespace

std::vector<NodeTensor> nodeTensors(const ModelConfig &config, const std::string &key, int part,
                                    int64_t length, int64_t elements) {
  std::string hidden = "hidden." + std::to_string(length) + ".";
  auto sub = [&](int64_t layer, std::string_view name) {
    return "sub." + std::to_string(length) + ".layer." + std::to_string(layer) + "." +
           std::string(name);
  };
  std::vector<NodeTensor> unnamed = {
      {part == 0 ? key : key + "#" + std::to_string(part), 0, {elements}}};
  std::optional<LayerNode> found = layerNode(key);
  if (!found) {
    if (key == "embed")
      return {{hidden + "embed", 0, {elements}}, {sub(0, "layer_input"), 0, {elements}}};
    if (key == "final_norm")
      return {{hidden + "final_norm", 0, {elements}}};
    if (key == "lm_head")
      return {{"prompt." + std::to_string(length) + ".logits", 0, {elements}}};
    return unnamed;
  }
  auto [layer, node] = *found;
  if (layer >= config.layers())
    return unnamed;
  const AttentionConfig &attention = config.attention(config.layerKinds[size_t(layer)]);
  int64_t dim = attention.headDim, queries = config.heads * dim, keys = attention.kvHeads * dim;
  if (std::string_view name = plainName(node); !name.empty())
    return {{sub(layer, name), 0, {elements}}};
  if (node == "mlp_residual") {
    std::vector<NodeTensor> out = {{hidden + "layer." + std::to_string(layer), 0, {elements}},
                                   {sub(layer, "layer_output"), 0, {elements}}};
    if (layer + 1 < config.layers())
      out.push_back({sub(layer + 1, "layer_input"), 0, {elements}});
    return out;
  }
  if (node == "attn.qkv_proj" && elements >= queries + keys) {
    std::vector<NodeTensor> out = {{sub(layer, "q_proj"), 0, {queries}},
                                   {sub(layer, "k_proj"), queries, {keys}}};
    if (elements == queries + 2 * keys)
      out.push_back({sub(layer, "v_proj"), queries + keys, {keys}});
    return out;
  }
  if (node == "mlp.gate_up" && elements == 2 * config.intermediate)
    return {{sub(layer, "gate_proj"), 0, {config.intermediate}},
            {sub(layer, "up_proj"), config.intermediate, {config.intermediate}}};
  if (node == "attn.v_norm" && elements == keys)
    return {{sub(layer, "v_norm"), 0, {attention.kvHeads, dim}}};
  bool norm = node == "attn.qk_norm";
  if (norm || node == "attn.rope") {
    // Queries, then keys.
    if (part == 0 && elements == queries)
      return {{sub(layer, norm ? "q_norm" : "q_rope"), 0, {config.heads, dim}}};
    if (part == 1 && elements == keys)
      return {{sub(layer, norm ? "k_norm" : "k_rope"), 0, {attention.kvHeads, dim}}};
  }
  return unnamed;
}

NodeLog::NodeLog(Context &context, int64_t promptLength)
    : context(context), promptLength(promptLength) {
  context.observeLaunches([this](size_t variant, size_t launch) { afterLaunch(variant, launch); });
}

NodeLog::~NodeLog() { context.observeLaunches(nullptr); }

void NodeLog::beginStep(int64_t tokens) {
  stepTokens = tokens;
  parts.clear();
}

void NodeLog::afterLaunch(size_t variant, size_t launchIndex) {
  const Program &program = context.model().program();
  const Launch &launch = program.variants[variant].launches[launchIndex];
  const KernelPlan &kernel = program.kernels[size_t(launch.kernel)];
  if (launch.nodes.empty() || launch.nodes.back() == "top_k") // no node of the model
    return;
  const std::string &key = launch.nodes.back();
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    const LaunchArgument &argument = launch.arguments[i];
    OutputView view;
    view.data = context.argumentData(variant, launchIndex, i);
    int64_t rows = stepTokens, stride = 0;
    if (kernel.access[i] == 0)
      continue;
    if (argument.kind == LaunchArgument::Kind::Buffer) {
      view.type = argument.type;
      view.rowElements = int64_t(*rowElements(argument));
      stride = argument.stride;
      rows = std::min(rows, largestRows(argument.extent, program.limits));
    } else if (argument.kind == LaunchArgument::Kind::Output) {
      std::optional<OutputView> output = context.output(argument.name);
      view.type = output->type;
      stride = view.rowElements = output->rowElements;
    } else {
      continue; // a cache, or between the blocks of the launch
    }
    int part = parts[key]++;
    for (const NodeTensor &tensor :
         nodeTensors(program.config, key, part, promptLength, view.rowElements)) {
      int64_t elements = 1;
      for (int64_t size : tensor.shape)
        elements *= size;
      for (int64_t row = 0; row < rows; ++row) {
        OutputView slice = view;
        slice.data += (row * stride + tensor.begin) * int64_t(byteWidth(view.type));
        slice.rowElements = elements;
        log.append(tensor.name, slice, 0, tensor.shape);
      }
    }
  }
}

} // namespace gemma::run
