// One op of L1 on values: from the op's attributes and operands to a call of reference/Ops.h.
#pragma once

#include "dialect/gemma/Gemma.h"
#include "reference/Values.h"
#include "reference/Weights.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace gemma::reference {

/// The weights of a module by symbol, each loaded once.
class LoadedWeights {
public:
  LoadedWeights(mlir::ModuleOp module, WeightSource &source) : symbols(module), source(source) {}
  /// The tensor stays valid as long as this.
  Expected<const Tensor *> get(mlir::StringRef symbol);

private:
  mlir::SymbolTable symbols;
  WeightSource &source;
  std::unordered_map<std::string, Tensor> loaded;
};

/// The keys [L, c, D] that `keys` says for values v [L, c, D] of positions 0 ... L-1 and the norm's
/// weight w [D].
Tensor keysOfValues(ir::KeysOfValuesAttr keys, const Tensor &w, const Tensor &v);

/// The results of `op`, which has no regions, for these operands. Element types of the IR are
/// ignored: everything is f64. Errors: an op that the reference does not know, an id or a row out
/// of range, a batch that does not fit the caches or the tensors.
Expected<std::vector<NodeValue>>
evaluate(mlir::Operation *op, std::span<const NodeValue *const> operands, LoadedWeights &weights);

} // namespace gemma::reference
