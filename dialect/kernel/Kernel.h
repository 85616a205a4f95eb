// The kernel dialect: attributes and ops (see KernelOps.td).
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialect/kernel/KernelDialect.h.inc"
#include "dialect/kernel/KernelEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/kernel/KernelAttrs.h.inc"
#include "dialect/kernel/KernelInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialect/kernel/KernelOps.h.inc"

namespace gemma::kernel {

/// Calls `use` for every memref operand of a core op (rows, quantize, contract, attention, topk),
/// and how the op uses it. Other ops have none.
void forEachAccess(mlir::Operation *op, llvm::function_ref<void(mlir::Value, Access)> use);

/// Bytes that a block of scratch takes: rounded up to 64, so that the next one is aligned.
int64_t scratchBytesOf(mlir::MemRefType block);

} // namespace gemma::kernel
