#include "tools/measure/LaunchCost.h"

#include "runtime/abi/ProgramSizes.h"
#include "runtime/abi/Variants.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>

namespace gemma::measure {
namespace {

/// The N of "layers[N].rest" and the rest; layer -1 outside of layers.
struct NodeName {
  int64_t layer = -1;
  std::string_view rest;
};

NodeName splitNode(std::string_view node) {
  constexpr std::string_view prefix = "layers[";
  if (!node.starts_with(prefix))
    return {-1, node};
  const char *end = node.data() + node.size();
  NodeName name;
  auto [stop, error] = std::from_chars(node.data() + prefix.size(), end, name.layer);
  if (error != std::errc() || end - stop < 2 || stop[0] != ']' || stop[1] != '.')
    return {-1, node};
  name.rest = node.substr(size_t(stop + 2 - node.data()));
  return name;
}

/// (query, key) pairs that attention computes: a query sees the keys up to itself that are within
/// the window (0: all).
int64_t visiblePairs(const StepShape &shape, int64_t window) {
  int64_t pairs = 0;
  for (const StepShape::Row &row : shape.rows)
    for (int64_t t = 0; t < row.fresh; ++t) {
      int64_t keys = row.cached + t + 1;
      pairs += window ? std::min(keys, window) : keys;
    }
  return pairs;
}

/// Positions that some query of the step sees.
int64_t visiblePositions(const StepShape &shape, int64_t window) {
  int64_t positions = 0;
  for (const StepShape::Row &row : shape.rows) {
    int64_t keys = row.cached + row.fresh;
    positions += window ? std::min(keys, window - 1 + row.fresh) : keys;
  }
  return positions;
}

int64_t tokensOf(const StepShape &shape) {
  int64_t tokens = 0;
  for (const StepShape::Row &row : shape.rows)
    tokens += row.fresh;
  return tokens;
}

/// What the nodes of a launch are, as far as the cost depends on it.
struct LaunchKind {
  bool embed = false, head = false, core = false, append = false;
  bool logitRows = true; ///< only the rows whose logits are wanted are computed
};

LaunchKind kindOf(const Launch &launch) {
  LaunchKind kind;
  for (const std::string &node : launch.nodes) {
    auto [layer, rest] = splitNode(node);
    kind.embed |= rest == "embed";
    kind.head |= rest == "lm_head";
    kind.core |= rest == "attn.core";
    kind.append |= rest == "attn.append";
    kind.logitRows &= layer < 0 && rest != "embed";
  }
  return kind;
}

Cost weightCost(const WeightRecipe &weight, const LaunchKind &kind, const StepShape &shape) {
  Cost cost;
  int64_t tokens = tokensOf(shape);
  if (weight.shape.size() < 2) {
    cost.bytes = double(weight.bytes);
  } else if (kind.embed) { // one row a token
    cost.bytes = double(tokens) * double(weight.bytes) / double(weight.shape[0]);
  } else {
    int64_t rows = kind.head ? shape.logitRows : tokens;
    cost.flops = 2 * double(rows) * double(weight.shape[0]) * double(weight.shape[1]);
    cost.bytes = rows ? double(weight.bytes) : 0; // without rows the grid is empty
  }
  return cost;
}

} // namespace

StepSizes StepShape::sizes() const {
  int64_t longestRun = 0, longestSequence = 0;
  for (const Row &row : rows) {
    longestRun = std::max(longestRun, row.fresh);
    longestSequence = std::max(longestSequence, row.cached + row.fresh);
  }
  return {tokensOf(*this), int64_t(rows.size()), longestRun, longestSequence, logitRows};
}

Cost launchCost(const Program &program, const Launch &launch, const StepShape &shape) {
  LaunchKind kind = kindOf(launch);
  int64_t tokens = tokensOf(shape);
  const std::vector<uint8_t> &access = program.kernels[size_t(launch.kernel)].access;
  std::set<int64_t> caches;
  Cost cost;
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    const LaunchArgument &argument = launch.arguments[i];
    switch (argument.kind) {
    case LaunchArgument::Kind::Weight:
      if (argument.offset == 0) // scales behind the codes are part of the weight
        cost += weightCost(program.weights[size_t(argument.index)], kind, shape);
      break;
    case LaunchArgument::Kind::Buffer: {
      // Of the rows that it selects from, a launch reads those that it selects.
      bool logitRows = launch.nodes.empty() ? argument.extent == 'R' : kind.logitRows;
      auto rows = double(logitRows ? shape.logitRows : tokens);
      double rowBytes =
          double(rowElements(argument).value_or(0)) * double(byteWidth(argument.type));
      // A read-write argument moves twice.
      cost.bytes += rows * rowBytes * (access[i] == 2 ? 2 : 1);
      break;
    }
    case LaunchArgument::Kind::Cache:
      caches.insert(argument.index);
      break;
    case LaunchArgument::Kind::Output:
      for (const OutputPlan &output : program.outputs)
        if (output.name == argument.name) {
          double elements = double(output.extent == 'R' ? shape.logitRows : tokens);
          for (int64_t dim : output.shape)
            elements *= double(dim);
          cost.bytes += elements * double(byteWidth(output.type));
        }
      break;
    case LaunchArgument::Kind::Table:
    case LaunchArgument::Kind::Input: // a few bytes a token
    case LaunchArgument::Kind::Workspace:
    case LaunchArgument::Kind::Tickets: // what blocks leave each other does not reach memory
      break;
    }
  }
  for (int64_t index : caches) {
    const CachePlan &cache = program.caches[size_t(index)];
    auto position = double(positionBytes(cache).value_or(0));
    if (kind.append)
      cost.bytes += double(tokens) * position;
    if (kind.core) {
      cost.bytes += double(visiblePositions(shape, cache.window)) * position;
      cost.flops +=
          4 * double(program.config.heads * cache.dim) * double(visiblePairs(shape, cache.window));
    }
  }
  return cost;
}

Cost stepCost(const Program &program, const Variant &variant, const StepShape &shape) {
  Cost cost;
  for (const Launch &launch : variant.launches)
    cost += launchCost(program, launch, shape);
  return cost;
}

std::optional<Cost> appendCost(const Program &program, int64_t cached, int64_t count, int64_t chunk,
                               bool everyLogits) {
  Cost cost;
  for (int64_t done = 0; done < count;) {
    int64_t tokens = std::min(count - done, chunk);
    bool last = done + tokens == count;
    StepShape shape{{{cached + done, tokens}}, everyLogits || last ? 1 : 0};
    size_t variant = variantFor(program, shape.sizes());
    if (variant == program.variants.size())
      return std::nullopt;
    cost += stepCost(program, program.variants[variant], shape);
    done += tokens;
  }
  return cost;
}

std::string nodesOf(const Program &program, const Launch &launch) {
  if (launch.nodes.empty()) {
    const std::string &kernel = program.kernels[size_t(launch.kernel)].name;
    return "(" + kernel.substr(0, kernel.rfind('_')) + ")";
  }
  std::string text;
  for (const std::string &node : launch.nodes) {
    size_t dot = node.find("].");
    text += (text.empty() ? "" : " ") + (dot == std::string::npos ? node : node.substr(dot + 2));
  }
  return text;
}

int64_t launchesPerLayer(const Variant &variant) {
  std::map<int64_t, int64_t> launches;
  int64_t most = 0;
  for (const Launch &launch : variant.launches) {
    int64_t layer = launch.nodes.empty() ? -1 : splitNode(launch.nodes.back()).layer;
    if (layer >= 0)
      most = std::max(most, ++launches[layer]);
  }
  return most;
}

} // namespace gemma::measure
