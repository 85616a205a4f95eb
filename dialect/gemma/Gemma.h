// The gemma dialect: types, attributes, interfaces and ops (see GemmaOps.td).
#pragma once

#include "dialect/program/Program.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace gemma::ir {

/// Sizes that an op's cost depends on.
struct CostSizes {
  int64_t tokens = 0;        ///< T
  int64_t rows = 0;          ///< R, selected rows
  int64_t globalVisible = 0; ///< Σ over the step's queries of causally visible keys, no window
  int64_t context = 0;       ///< position of the first query (S - T for one sequence)
};

/// What an op does and moves.
struct Cost {
  int64_t flops = 0;
  int64_t weightBytes = 0;
  int64_t activationBytes = 0;
  int64_t cacheBytes = 0;
};

} // namespace gemma::ir

#include "dialect/gemma/GemmaDialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/gemma/GemmaTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/gemma/GemmaAttrs.h.inc"
#include "dialect/gemma/GemmaInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialect/gemma/GemmaOps.h.inc"
