// The program dialect: attributes and ops (see ProgramOps.td).
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/IntegerSet.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace gemma::program {

/// The largest sizes of a step that memory is planned for, by the extents of buffers.
struct LargestSizes {
  int64_t tokens = 0;    ///< T
  int64_t sequences = 0; ///< B
  int64_t logitRows = 0; ///< R
};

} // namespace gemma::program

#include "dialect/program/ProgramDialect.h.inc"
#include "dialect/program/ProgramEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/program/ProgramAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialect/program/ProgramOps.h.inc"
