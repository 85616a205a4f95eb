// Lowers GPU kernels to gpu.func of scf, arith, vector, NVVM and LLVM. A function a core op, or a
// class where something comes between its parts, each in its own file.
#pragma once

#include "codegen/gpu/GpuBuilder.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace gemma::codegen::cuda {

/// Emits gpu.module @NAME { gpu.func @NAME } for a kernel with `launch` at the builder's insertion
/// point: one pointer to global memory an argument, in order, then one to the step's GemmaSizes
/// (runtime/abi/KernelAbi.h). Blocks that the sizes do not need do nothing. Errors are reported at
/// the kernel's ops.
///
/// What the i-th core op of the kernel became has line i + 1 of the file NAME as its location,
/// named by the op's node of the spec; `nodes`, if given, gets these names in order.
mlir::FailureOr<mlir::gpu::GPUModuleOp> lowerKernel(kernel::FuncOp kernel, mlir::OpBuilder &builder,
                                                    std::vector<std::string> *nodes = nullptr);

void lowerRows(GpuBuilder &b, kernel::RowsOp op);
void lowerTopK(GpuBuilder &b, kernel::TopKOp op);

/// kernel.contract in two steps, so that its first weights are on their way while the block
/// prepares activations.
class Contraction {
public:
  Contraction(GpuBuilder &b, kernel::ContractOp op);
  ~Contraction();
  /// Starts the first copies of weights, and of activations that are not prepared.
  void fetch();
  /// Emits the rest.
  void emit();

private:
  std::unique_ptr<class ContractLowering> lowering;
};

/// kernel.attention in two steps: what makes its queries lies between them, and is left out with
/// the rest in blocks that have nothing to do.
class Attention {
public:
  Attention(GpuBuilder &b, kernel::AttentionOp op);
  ~Attention();
  /// Emits which queries and keys the block has; the condition that it has any, the same in all its
  /// threads.
  mlir::Value findWork();
  /// Emits the rest, where the condition holds.
  void emit();

private:
  std::unique_ptr<class AttentionLowering> lowering;
};

} // namespace gemma::codegen::cuda
