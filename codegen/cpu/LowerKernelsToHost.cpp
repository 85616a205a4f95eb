// The lowering of kernels as a pass, for gemma-opt and tests: kernel.func -> func.func.
#include "codegen/cpu/Lowering.h"
#include "codegen/cpu/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#define DEBUG_TYPE "gemma-lower-kernels-to-host"

namespace gemma::codegen {
#define GEN_PASS_DEF_LOWERKERNELSTOHOST
#include "codegen/cpu/Passes.h.inc"

namespace {

struct LowerKernelsToHost : impl::LowerKernelsToHostBase<LowerKernelsToHost> {
  using LowerKernelsToHostBase::LowerKernelsToHostBase;

  void runOnOperation() override {
    const HostIsa *variant = findHostIsa(isa);
    if (!variant) {
      getOperation().emitError("expected isa to be avx512vnni, avx512, avx2 or baseline, got ")
          << isa;
      return signalPassFailure();
    }
    for (kernel::FuncOp kernel :
         llvm::make_early_inc_range(getOperation().getOps<kernel::FuncOp>())) {
      mlir::OpBuilder builder(kernel);
      auto lowered = lowerKernel(kernel, *variant, builder);
      if (mlir::failed(lowered))
        return signalPassFailure();
      lowered->function->setAttr("gemma.scratch_bytes",
                                 builder.getI64IntegerAttr(lowered->scratchBytes));
      kernel.erase();
    }
  }
};

} // namespace
} // namespace gemma::codegen
