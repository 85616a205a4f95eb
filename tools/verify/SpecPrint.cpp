// A spec sheet as text and as JSON.
#include "tools/verify/SpecSheet.h"
#include "tools/verify/Table.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace gemma::verify {

using Row = TableRow;

/// 11,907,350,320
static std::string grouped(int64_t value) {
  std::string text = std::to_string(value);
  for (size_t at = text.size(); at > 3; at -= 3)
    text.insert(at - 3, ",");
  return text;
}

/// `value` in the largest of `units`, each `step` times the one before, that leaves 1 or more.
static std::string scaled(int64_t value, double step, std::initializer_list<const char *> units,
                          int digits) {
  double number = double(value);
  auto unit = units.begin();
  for (; number >= step && unit + 1 != units.end(); ++unit)
    number /= step;
  char text[64];
  bool whole = number == double(int64_t(number));
  std::snprintf(text, sizeof text, "%.*f %s", whole ? 0 : digits, number, *unit);
  return text;
}
static std::string bytes(int64_t value) {
  return scaled(value, 1024, {"B", "KiB", "MiB", "GiB", "TiB"}, 2);
}
static std::string flops(int64_t value) {
  return scaled(value, 1000, {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"}, 1);
}

static std::string shapeText(const Row &shape) {
  std::string text = "[";
  for (const std::string &size : shape)
    text += (text.size() == 1 ? "" : ", ") + size;
  return text + "]";
}

std::string printSpec(const SpecSheet &sheet) {
  std::vector<Row> glance = {
      {"Model", sheet.model},
      {"Parameters (text model)", grouped(sheet.parameters)},
      {"Layers", std::to_string(sheet.layers) + " (" + std::to_string(sheet.slidingLayers) +
                     " sliding-window attention, " +
                     std::to_string(sheet.layers - sheet.slidingLayers) + " full attention)"},
      {"Hidden size", grouped(sheet.hidden)},
      {"Vocabulary", grouped(sheet.vocab)},
      {"Shape domain", "T ∈ [1, " + grouped(sheet.domain.tokens) + "] tokens, B ∈ [1, " +
                           grouped(sheet.domain.sequences) + "] sequences, S ∈ [1, " +
                           grouped(sheet.domain.positions) + "] cached positions, page size " +
                           std::to_string(sheet.domain.page)}};
  std::vector<Row> nodes = {{"Node", "Op Spec", "Layers", "Formula", "Constants"}};
  for (const SpecNode &node : sheet.nodes)
    nodes.push_back({node.node, node.opSpec, describeLayers(node.layers, sheet.layers),
                     node.formula, node.constantList()});
  std::vector<Row> tensors = {{"Node", "Inputs and outputs"}};
  for (const SpecTensors &row : sheet.tensors) {
    std::string list;
    for (const auto &[name, shape] : row.tensors)
      list += (list.empty() ? "" : ", ") + name + " " + shapeText(shape);
    tensors.push_back({row.node, list});
  }
  const CostModel &c = sheet.costs;
  std::vector<Row> costs = {
      {"KV cache per token, bf16 (layers that grow with context)", bytes(c.kvBytesPerToken)},
      {"KV cache + state at 256K tokens, bf16", bytes(c.kvBytes)},
      {"Decode FLOPs per token at 4K context", flops(c.decodeFlops)},
      {"Prefill FLOPs for a 4K prompt", flops(c.prefillFlops)}};
  return formatTable(glance) + "\nCompute-graph nodes\n\n" + formatTable(nodes) +
         "\nTensors of the main nodes\n\n" + formatTable(tensors) +
         "\nModelled costs, batch size 1\n\n" + formatTable(costs);
}

nlohmann::json specToJson(const SpecSheet &sheet) {
  nlohmann::json nodes = nlohmann::json::array(), tensors = nlohmann::json::object();
  for (const SpecNode &node : sheet.nodes) {
    nlohmann::json constants = nlohmann::json::object();
    for (const auto &[name, value] : node.constants)
      constants[name] = value;
    nodes.push_back({{"node", node.node},
                     {"op_spec", node.opSpec},
                     {"layers", node.layers},
                     {"layers_text", describeLayers(node.layers, sheet.layers)},
                     {"formula", node.formula},
                     {"constants", constants}});
  }
  for (const SpecTensors &row : sheet.tensors) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto &[name, shape] : row.tensors)
      list.push_back({{"name", name}, {"shape", shape}});
    tensors[row.node] = list;
  }
  const CostModel &c = sheet.costs;
  return {{"model", sheet.model},
          {"parameters", sheet.parameters},
          {"layers", sheet.layers},
          {"sliding_layers", sheet.slidingLayers},
          {"hidden_size", sheet.hidden},
          {"vocab_size", sheet.vocab},
          {"domain",
           {{"tokens", sheet.domain.tokens},
            {"sequences", sheet.domain.sequences},
            {"positions", sheet.domain.positions},
            {"page", sheet.domain.page}}},
          {"nodes", nodes},
          {"tensors", tensors},
          {"costs",
           {{"kv_bytes_per_token", c.kvBytesPerToken},
            {"kv_bytes_at_262144", c.kvBytes},
            {"decode_flops_at_4096", c.decodeFlops},
            {"prefill_flops_of_4096", c.prefillFlops}}}};
}

} // namespace gemma::verify
