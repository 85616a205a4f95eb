// The lowering of GPU kernels as passes, for gemma-opt and tests: kernel.func -> gpu.func, and PTX.
#include "codegen/gpu/Lowering.h"
#include "codegen/gpu/Passes.h"
#include "codegen/gpu/PtxEmitter.h"
#include "codegen/gpu/Ptxas.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#define DEBUG_TYPE "gemma-lower-kernels-to-gpu"

namespace gemma::codegen {
#define GEN_PASS_DEF_LOWERKERNELSTOGPU
#define GEN_PASS_DEF_EMITPTX
#include "codegen/gpu/Passes.h.inc"

namespace {

struct LowerKernelsToGpu : impl::LowerKernelsToGpuBase<LowerKernelsToGpu> {
  void runOnOperation() override {
    for (kernel::FuncOp kernel :
         llvm::make_early_inc_range(getOperation().getOps<kernel::FuncOp>())) {
      if (!kernel.getLaunch())
        continue;
      mlir::OpBuilder builder(kernel);
      if (mlir::failed(cuda::lowerKernel(kernel, builder)))
        return signalPassFailure();
      kernel.erase();
    }
  }
};

struct EmitPtx : impl::EmitPtxBase<EmitPtx> {
  using EmitPtxBase::EmitPtxBase;

  void getDependentDialects(mlir::DialectRegistry &registry) const override {
    registerGpuCodegenDialects(registry);
  }

  void runOnOperation() override {
    if (Status status = emit(); !status) {
      getOperation().emitError(status.error().message);
      signalPassFailure();
    }
  }

  Status emit() {
    const GpuTarget *target = findGpuTarget(chip);
    if (!target)
      return usage("expected chip to be sm_80, sm_90, sm_100 or sm_120, got " + chip);
    auto kernels = emitPtx(getOperation(), {*target});
    if (!kernels)
      return kernels.status();
    for (const PtxKernel &kernel : *kernels) {
      const std::string &ptx = kernel.ptx.at(target->name);
      if (!check) {
        llvm::outs() << ptx;
        continue;
      }
      auto ptxas = findPtxas();
      if (!ptxas) {
        llvm::outs() << "note: " << ptxas.error().message << "\n";
        return {};
      }
      auto report = assemble(*ptxas, kernel.name, ptx, target->name);
      if (!report)
        return report.status();
      llvm::outs() << kernel.name << " " << target->name << ": " << report->registers
                   << " registers, " << kernel.threads << " threads, "
                   << kernel.sharedBytes + report->staticShared << " bytes shared, "
                   << report->spillStores << " spilled, " << report->stackBytes << " stack\n";
    }
    return {};
  }
};

} // namespace
} // namespace gemma::codegen
