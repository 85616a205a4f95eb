#include "tools/verify/SpecSheet.h"

#include "dialect/gemma/Gemma.h"
#include "dialect/gemma/NodeKey.h"
#include "tools/verify/SpecKey.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <array>
#include <set>

using namespace mlir;

namespace gemma::verify {

/// Largest T, S and B of the Op Specs' shape domains.
static constexpr int64_t kMostPositions = 262144, kMostSequences = 256;

std::string SpecNode::constantList() const {
  std::string list;
  for (const auto &[name, value] : constants)
    list += (list.empty() ? "" : ", ") + name + "=" + value;
  return list;
}

//===----------------------------------------------------------------------===//
// Node table
//===----------------------------------------------------------------------===//

namespace {
/// A spec node in the order of the program; a node of two ops (q and k) has two.
struct Occurrence {
  int64_t layer; ///< -1 outside of layers
  std::string node;
  ir::SpecOpInterface op;
};
} // namespace

static std::vector<Occurrence> occurrences(ModuleOp module) {
  std::vector<Occurrence> found;
  module.walk([&](ir::SpecOpInterface op) {
    auto [layer, node] = splitNodeKey(ir::nodeKey(op->getLoc()));
    found.push_back({layer, std::string(node), op});
  });
  return found;
}

/// Layers whose attention has a window.
static std::set<int64_t> slidingLayers(const std::vector<Occurrence> &all) {
  std::set<int64_t> layers;
  for (const Occurrence &each : all)
    if (auto attention = dyn_cast<ir::GqaOp>(*each.op); attention && attention.getWindow())
      layers.insert(each.layer);
  return layers;
}

/// The occurrences in the order of the page: before the layers, sliding layers, global layers,
/// behind the layers.
static std::vector<Occurrence> pageOrder(std::vector<Occurrence> all) {
  std::set<int64_t> sliding = slidingLayers(all);
  bool layersSeen = false;
  std::array<std::vector<Occurrence>, 4> groups;
  for (Occurrence &each : all) {
    layersSeen |= each.layer >= 0;
    size_t group = each.layer < 0 ? (layersSeen ? 3 : 0) : sliding.contains(each.layer) ? 1 : 2;
    groups[group].push_back(std::move(each));
  }
  std::vector<Occurrence> ordered;
  for (std::vector<Occurrence> &group : groups)
    std::ranges::move(group, std::back_inserter(ordered));
  return ordered;
}

static std::vector<SpecNode> nodeTable(const std::vector<Occurrence> &ordered) {
  std::vector<SpecNode> table;
  for (const Occurrence &each : ordered) {
    ir::SpecOpInterface op = each.op;
    ir::SpecConstants constants = op.getConstants();
    SpecNode row{
        each.node, op.getOpSpec().str(), op.getFormula(), {constants.begin(), constants.end()}, {}};
    auto same = std::ranges::find_if(table, [&](const SpecNode &other) {
      return other.node == row.node && other.opSpec == row.opSpec && other.formula == row.formula &&
             other.constants == row.constants;
    });
    if (same == table.end())
      same = table.insert(same, std::move(row));
    if (each.layer >= 0 && !std::ranges::count(same->layers, each.layer))
      same->layers.push_back(each.layer);
  }
  for (SpecNode &row : table)
    std::ranges::sort(row.layers);
  return table;
}

/// "5, 11, …, 47": a longer list is cut if its steps are equal.
static std::string layerList(const std::vector<int64_t> &layers) {
  bool regular = layers.size() > 3;
  for (size_t i = 2; i < layers.size(); ++i)
    regular &= layers[i] - layers[i - 1] == layers[1] - layers[0];
  std::string text;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (regular && i > 1 && i + 1 < layers.size())
      continue;
    text += i == 0 ? "" : regular && i > 1 ? ", …, " : ", ";
    text += std::to_string(layers[i]);
  }
  return text;
}

std::string describeLayers(const std::vector<int64_t> &layers, int64_t count) {
  if (layers.empty())
    return "—";
  if (int64_t(layers.size()) == count)
    return "all " + std::to_string(count);
  std::vector<int64_t> others;
  for (int64_t i = 0; i < count; ++i)
    if (!std::ranges::binary_search(layers, i))
      others.push_back(i);
  std::string size = std::to_string(layers.size()) + ": ";
  return others.size() < layers.size() ? size + "all but " + layerList(others)
                                       : size + layerList(layers);
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// [T, H]: the dynamic first size of a step's tensor is `rows`.
static std::vector<std::string> shapeOf(Value value, const std::string &rows) {
  std::vector<std::string> shape;
  for (int64_t size : cast<RankedTensorType>(value.getType()).getShape())
    shape.push_back(ShapedType::isDynamic(size) ? rows : std::to_string(size));
  return shape;
}

/// The names the page gives to the inputs and outputs of one op. A node of q and k has both ops.
static void addTensors(SpecTensors &to, ir::SpecOpInterface op) {
  Operation *node = op.getOperation();
  auto add = [&](std::string name, std::vector<std::string> shape) {
    to.tensors.emplace_back(std::move(name), std::move(shape));
  };
  if (auto attention = dyn_cast<ir::GqaOp>(node)) {
    // Attention is specified for one query of each sequence, with keys and values as arrays.
    std::vector<std::string> heads = shapeOf(attention.getQ(), "B");
    std::string keyHeads = std::to_string(attention.getKvHeads());
    std::vector<std::string> keys = {"B", "S", keyHeads, heads[2]};
    add("q", heads);
    add("k", keys);
    add("v", keys);
    add("seq_lens", {"B"});
    add("o", heads);
    return;
  }
  Value x = node->getOperand(0), y = node->getResult(0);
  bool perHead = cast<RankedTensorType>(x.getType()).getRank() == 3;
  if (perHead) {
    std::string part = ir::nodePart(node->getLoc()).str();
    std::string name = part.empty() ? "v" : part;
    // Outputs and positions stand behind all inputs.
    auto outputs = std::ranges::find_if(
        to.tensors, [](const auto &t) { return t.first.ends_with("_out") || t.first == "pos"; });
    to.tensors.emplace(outputs, name, shapeOf(x, "T"));
    bool positions = std::ranges::any_of(to.tensors, [](auto &t) { return t.first == "pos"; });
    if (isa<ir::RopeOp, ir::RopeStdOp>(node) && !positions)
      add("pos", {"T"});
    add(name + "_out", shapeOf(y, "T"));
    return;
  }
  std::string input = isa<ir::EmbedOp>(node)                    ? "tokens"
                      : isa<ir::GeluMulOp, ir::SiluMulOp>(node) ? "gate_up"
                                                                : "x";
  add(input, shapeOf(x, "T"));
  if (isa<ir::ResidualOp>(node))
    add("h", shapeOf(node->getOperand(1), "T"));
  add(isa<ir::LmHeadOp>(node) ? "logits" : "y", shapeOf(y, "T"));
}

/// Of every node once, in the layer that comes first in the page's order.
static std::vector<SpecTensors> tensorTable(const std::vector<Occurrence> &ordered) {
  std::vector<SpecTensors> table;
  std::vector<int64_t> layers;
  for (const Occurrence &each : ordered) {
    auto found = std::ranges::find_if(table, [&](auto &row) { return row.node == each.node; });
    if (found == table.end()) {
      found = table.insert(found, SpecTensors{each.node, {}});
      layers.push_back(each.layer);
    }
    if (layers[size_t(found - table.begin())] == each.layer)
      addTensors(*found, each.op);
  }
  return table;
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

/// The projection that a key or a value comes from, behind norms and rope.
static Value projectionOf(Value value) {
  while (Operation *producer = value.getDefiningOp()) {
    if (!isa<ir::RmsNormOp, ir::RmsNormUnitOp, ir::RopeOp>(producer))
      break;
    value = producer->getOperand(0);
  }
  return value;
}

static CostModel costModel(ModuleOp module) {
  CostModel costs;
  SymbolTable symbols(module);
  module.walk([&](ir::CacheAppendOp append) {
    auto cache =
        symbols.lookup<program::CacheOp>(append.getCache().getType().getSymbol().getValue());
    if (!cache)
      return;
    auto lane = static_cast<int64_t>(cache.getHeads() * cache.getDim() *
                                     (cache.getElem().getIntOrFloatBitWidth() / 8));
    if (cache.getKind() == program::CacheKind::Ring) {
      costs.kvBytes +=
          2 * lane * std::min(CostModel::context, static_cast<int64_t>(cache.getWindow()));
      return;
    }
    // Where both come from one projection, keys can be made of the cached values.
    bool valuesAlone = projectionOf(append.getK()) == projectionOf(append.getV());
    int64_t bytes = (valuesAlone ? 1 : 2) * lane;
    costs.kvBytesPerToken += bytes;
    costs.kvBytes += bytes * CostModel::context;
  });
  module.walk([&](ir::CostOpInterface op) {
    costs.decodeFlops += op.getCost({.tokens = 1, .rows = 1, .context = CostModel::cached}).flops;
    costs.prefillFlops += op.getCost({.tokens = CostModel::prompt, .rows = 1, .context = 0}).flops;
  });
  return costs;
}

//===----------------------------------------------------------------------===//
// All
//===----------------------------------------------------------------------===//

SpecSheet deriveSpec(ModuleOp module, const std::string &model, int64_t maxPositions) {
  SpecSheet sheet;
  sheet.model = model;
  std::vector<Occurrence> ordered = pageOrder(occurrences(module));
  sheet.slidingLayers = int64_t(slidingLayers(ordered).size());
  std::set<int64_t> layers;
  for (const Occurrence &each : ordered)
    if (each.layer >= 0)
      layers.insert(each.layer);
  sheet.layers = int64_t(layers.size());
  sheet.nodes = nodeTable(ordered);
  sheet.tensors = tensorTable(ordered);

  module.walk(
      [&](program::WeightOp weight) { sheet.parameters += weight.getType().getNumElements(); });
  module.walk([&](ir::EmbedOp embed) {
    if (auto table =
            SymbolTable::lookupNearestSymbolFrom<program::WeightOp>(embed, embed.getWeightAttr())) {
      sheet.vocab = table.getType().getDimSize(0);
      sheet.hidden = table.getType().getDimSize(1);
    }
  });
  int64_t positions = std::min(maxPositions, kMostPositions);
  sheet.domain = {positions, kMostSequences, positions, 0};
  module.walk(
      [&](program::CacheOp cache) { sheet.domain.page = static_cast<int64_t>(cache.getPage()); });
  sheet.costs = costModel(module);
  return sheet;
}

} // namespace gemma::verify
