// A model as its spec page describes it, derived from the imported L1 module: the node table, the
// tensors of the main nodes, the shape domains, the parameters and the cost model.
//
// Source: test/data/spec (node tables, tensors) and gemma-4-12B-costs.md (cost model).
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gemma::verify {

/// A row of the node table.
struct SpecNode {
  std::string node, opSpec, formula;
  std::vector<std::pair<std::string, std::string>> constants;
  std::vector<int64_t> layers; ///< in which the node has these constants; empty: outside of layers

  /// "H=3840, eps=1e-06"
  std::string constantList() const;
};

/// Inputs and outputs of a node: names and shapes, "T", "B", "S" standing for sizes of a step.
struct SpecTensors {
  std::string node;
  std::vector<std::pair<std::string, std::vector<std::string>>> tensors;
};

/// Largest sizes; the smallest are 1.
struct ShapeDomain {
  int64_t tokens = 0;    ///< T
  int64_t sequences = 0; ///< B
  int64_t positions = 0; ///< S
  int64_t page = 0;      ///< positions of a page
};

/// The cost model of the published pages, batch size 1, bf16 caches.
struct CostModel {
  /// Context of the cache figure, cached positions of the decode figure, prompt of the prefill one.
  static constexpr int64_t context = 262144, cached = 4096, prompt = 4096;
  int64_t kvBytesPerToken = 0; ///< of the layers that grow with context; V alone where K follows
                               ///< from it
  int64_t kvBytes = 0;         ///< at `context`, rings of exactly the window with K and V
  int64_t decodeFlops = 0;     ///< one token after `cached` positions
  int64_t prefillFlops = 0;    ///< `prompt` tokens, the head once
};

struct SpecSheet {
  std::string model;
  int64_t layers = 0, slidingLayers = 0, hidden = 0, vocab = 0;
  int64_t parameters = 0;
  ShapeDomain domain;
  std::vector<SpecNode> nodes; ///< in the page's order: the sliding kind's layer, then what is
                               ///< different in global layers, between what precedes and follows
  std::vector<SpecTensors> tensors;
  CostModel costs;
};

/// `module` as import/Import.h makes it. `maxPositions`: the configuration's.
SpecSheet deriveSpec(mlir::ModuleOp module, const std::string &model, int64_t maxPositions);

/// The table's way to name layers: "all 48", "40: all but 5, 11, …, 47", "8: 5, 11, …, 47".
std::string describeLayers(const std::vector<int64_t> &layers, int64_t count);

std::string printSpec(const SpecSheet &sheet);
nlohmann::json specToJson(const SpecSheet &sheet);

} // namespace gemma::verify
