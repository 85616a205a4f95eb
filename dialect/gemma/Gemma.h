// The gemma dialect: types, attributes, interfaces and ops (see GemmaOps.td).
#pragma once

#include "dialect/program/Program.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace gemma::ir {

/// Sizes that an op's cost depends on: one sequence that brings `tokens` new tokens after `context`
/// cached positions, and wants the logits of `rows` of them.
struct CostSizes {
  int64_t tokens = 0;  ///< T
  int64_t rows = 0;    ///< R
  int64_t context = 0; ///< positions in the cache before the step; the first query's position

  /// Visible (query, key) pairs: a query at position p sees min(p + 1, window) keys, its own among
  /// them. `window` 0 is none.
  int64_t visiblePairs(int64_t window) const;
  /// Positions that at least one query sees.
  int64_t visibleKeys(int64_t window) const;
};

/// What an op does and moves.
struct Cost {
  int64_t flops = 0;
  int64_t weightBytes = 0;
  int64_t activationBytes = 0;
  int64_t cacheBytes = 0;

  int64_t bytes() const { return weightBytes + activationBytes + cacheBytes; }
  Cost &operator+=(const Cost &other);
};

/// Names and values of a node's constants, as the spec page's node table prints them, in its order.
using SpecConstants = llvm::SmallVector<std::pair<std::string, std::string>, 5>;

/// Reifies the shapes of `op`'s tensor results: as many rows as `rows` has, all else static.
llvm::LogicalResult reifyRowsOf(mlir::Value rows, mlir::Operation *op, mlir::OpBuilder &builder,
                                mlir::ReifiedRankedShapedTypeDims &shapes);

} // namespace gemma::ir

#include "dialect/gemma/GemmaDialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/gemma/GemmaTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/gemma/GemmaAttrs.h.inc"
#include "dialect/gemma/GemmaInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialect/gemma/GemmaOps.h.inc"
