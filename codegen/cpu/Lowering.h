// Lowers kernels to functions of func, scf, arith, math, vector and memref (and, for the arguments'
// descriptors only, LLVM's pointers). One function a core op, each in its own file.
#pragma once

#include "codegen/cpu/KernelBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace gemma::codegen {

/// What the caller of a kernel must provide.
struct LoweredKernel {
  mlir::func::FuncOp function;
  int64_t scratchBytes = 0; ///< a worker, 64-byte aligned
};

/// Emits the function `void name(const GemmaArgs *, i64 begin, i64 end, void *scratch)` at the
/// builder's insertion point. Errors are reported at the kernel's ops.
mlir::FailureOr<LoweredKernel> lowerKernel(kernel::FuncOp kernel, const HostIsa &isa,
                                           mlir::OpBuilder &builder);

void lowerRows(KernelBuilder &b, kernel::RowsOp op);
void lowerContract(KernelBuilder &b, kernel::ContractOp op);
void lowerQuantizedContract(KernelBuilder &b, kernel::ContractOp op);
void lowerQuantize(KernelBuilder &b, kernel::QuantizeOp op);
void lowerAttention(KernelBuilder &b, kernel::AttentionOp op);
void lowerTopK(KernelBuilder &b, kernel::TopKOp op);

} // namespace gemma::codegen
