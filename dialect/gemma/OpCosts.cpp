// FLOPs and bytes of the nodes (CostOpInterface).
#include "dialect/gemma/Verify.h"

#include <algorithm>

using namespace mlir;
using namespace gemma::ir;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

int64_t CostSizes::visiblePairs(int64_t window) const {
  // The first queries see all p + 1 keys, the others a full window.
  int64_t growing = window == 0 ? tokens : std::clamp<int64_t>(window - context, 0, tokens);
  return growing * context + growing * (growing + 1) / 2 + (tokens - growing) * window;
}

int64_t CostSizes::visibleKeys(int64_t window) const {
  if (tokens == 0)
    return 0;
  int64_t all = context + tokens;
  return window == 0 ? all : std::min(all, window + tokens - 1);
}

Cost &Cost::operator+=(const Cost &other) {
  flops += other.flops;
  weightBytes += other.weightBytes;
  activationBytes += other.activationBytes;
  cacheBytes += other.cacheBytes;
  return *this;
}

/// Rows of a value: R behind a select_rows, else T, if the type does not say.
static int64_t rowsOf(Value value, const CostSizes &sizes) {
  while (true) {
    if (auto type = dyn_cast<RankedTensorType>(value.getType());
        type && type.getRank() > 0 && !type.isDynamicDim(0))
      return type.getDimSize(0);
    Operation *producer = value.getDefiningOp();
    if (!producer)
      return sizes.tokens;
    if (isa<SelectRowsOp>(producer))
      return sizes.rows;
    if (auto group = dyn_cast<GroupOp>(producer))
      value = group.getBody().front().getTerminator()->getOperand(
          cast<OpResult>(value).getResultNumber());
    else if (producer->getNumOperands() > 0)
      value = producer->getOperand(0);
    else
      return sizes.tokens;
  }
}

static int64_t bytesOfElement(Type type) {
  return static_cast<int64_t>(getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8);
}

/// Bytes of the op's tensor operands and results.
static int64_t activationBytes(Operation *op, const CostSizes &sizes) {
  int64_t bytes = 0;
  auto add = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      return;
    int64_t row = bytesOfElement(type);
    for (int64_t size : type.getShape().drop_front())
      row *= size;
    bytes += rowsOf(value, sizes) * row;
  };
  llvm::for_each(op->getOperands(), add);
  llvm::for_each(op->getResults(), add);
  return bytes;
}

/// The weight's element type; null if the symbol is missing.
static RankedTensorType weightType(Operation *op, FlatSymbolRefAttr symbol) {
  auto weight = SymbolTable::lookupNearestSymbolFrom<gemma::program::WeightOp>(op, symbol);
  return weight ? dyn_cast<RankedTensorType>(weight.getType()) : RankedTensorType();
}

static int64_t weightBytes(Operation *op, FlatSymbolRefAttr symbol) {
  RankedTensorType type = weightType(op, symbol);
  return type ? type.getNumElements() * bytesOfElement(type) : 0;
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

/// x Wᵀ: 2·rows·K·N.
static Cost contraction(Operation *op, Value x, Value y, FlatSymbolRefAttr weight,
                        const CostSizes &sizes) {
  Cost cost;
  cost.flops = 2 * rowsOf(x, sizes) * columnsOf(x.getType()) * columnsOf(y.getType());
  cost.weightBytes = weightBytes(op, weight);
  cost.activationBytes = activationBytes(op, sizes);
  return cost;
}

Cost LinearOp::getCost(const CostSizes &sizes) {
  return contraction(*this, getX(), getY(), getWeightAttr(), sizes);
}
Cost LmHeadOp::getCost(const CostSizes &sizes) {
  return contraction(*this, getX(), getY(), getWeightAttr(), sizes);
}

Cost GqaOp::getCost(const CostSizes &sizes) {
  auto window = static_cast<int64_t>(getWindow().value_or(0));
  int64_t heads = dimOf(getQ().getType(), 1), dim = columnsOf(getQ().getType());
  Cost cost;
  // 2·D for the score and 2·D for the sum over values, each head and visible key.
  cost.flops = 4 * heads * dim * sizes.visiblePairs(window);
  cost.activationBytes = activationBytes(*this, sizes);
  if (auto cache = SymbolTable::lookupNearestSymbolFrom<gemma::program::CacheOp>(
          *this, getCache().getType().getSymbol()))
    cost.cacheBytes = sizes.visibleKeys(window) * static_cast<int64_t>(getKvHeads()) *
                      (cache.hasKeys() ? 2 : 1) *
                      (dim * bytesOfElement(cache.getElem()) + (cache.hasScales() ? 4 : 0));
  return cost;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// A row op: no FLOPs by convention; weights and activations move.
static Cost rowCost(Operation *op, FlatSymbolRefAttr weight, const CostSizes &sizes) {
  Cost cost;
  if (weight)
    cost.weightBytes = weightBytes(op, weight);
  cost.activationBytes = activationBytes(op, sizes);
  return cost;
}

Cost EmbedOp::getCost(const CostSizes &sizes) {
  Cost cost = rowCost(*this, {}, sizes);
  // Only the rows that are looked up.
  if (RankedTensorType type = weightType(*this, getWeightAttr()))
    cost.weightBytes = rowsOf(getY(), sizes) * type.getShape().back() * bytesOfElement(type);
  return cost;
}
Cost RmsNormOp::getCost(const CostSizes &sizes) { return rowCost(*this, getWeightAttr(), sizes); }
Cost RmsNormOffsetOp::getCost(const CostSizes &sizes) {
  return rowCost(*this, getWeightAttr(), sizes);
}
Cost RmsNormUnitOp::getCost(const CostSizes &sizes) { return rowCost(*this, {}, sizes); }
Cost L2NormOp::getCost(const CostSizes &sizes) { return rowCost(*this, {}, sizes); }
Cost RmsNormGatedOp::getCost(const CostSizes &sizes) {
  return rowCost(*this, getWeightAttr(), sizes);
}
Cost RopeOp::getCost(const CostSizes &sizes) { return rowCost(*this, {}, sizes); }
Cost RopeStdOp::getCost(const CostSizes &sizes) { return rowCost(*this, {}, sizes); }
Cost SigmoidGateOp::getCost(const CostSizes &sizes) { return rowCost(*this, {}, sizes); }
Cost GeluMulOp::getCost(const CostSizes &sizes) { return rowCost(*this, {}, sizes); }
Cost SiluMulOp::getCost(const CostSizes &sizes) { return rowCost(*this, {}, sizes); }
Cost ResidualOp::getCost(const CostSizes &sizes) {
  return rowCost(*this, getLayerScalarAttr(), sizes);
}
