// The passes of the GPU code generator.
#ifndef CODEGEN_GPU_PASSES_TD
#define CODEGEN_GPU_PASSES_TD

include "mlir/Pass/PassBase.td"

def LowerKernelsToGpu : Pass<"gemma-lower-kernels-to-gpu", "::mlir::ModuleOp"> {
  let summary = "Lower kernels with a launch to gpu.func";
  let description = [{
    Replaces every `kernel.func` that has a `launch` by a `gpu.module` of the same name with one
    `gpu.func` of the same name. Its arguments are one pointer to global memory an argument of the
    kernel, in order, then one to the step's `GemmaSizes` (runtime/abi/KernelAbi.h). The grid's x is the
    block's number; blocks beyond what the sizes need do nothing. Kernels without a launch stay.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
                           "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def EmitPtx : Pass<"gemma-emit-ptx", "::mlir::ModuleOp"> {
  let summary = "Print the PTX of every GPU kernel";
  let description = [{
    Compiles every `kernel.func` that has a `launch` and writes its PTX to standard output; the module
    stays as it is. With `check`, ptxas assembles it too: one line of registers, shared memory, stack and
    spills a kernel is written instead, and local memory is an error. Without a ptxas that line says so.
  }];
  let options = [Option<"chip", "chip", "std::string", "\"sm_80\"", "sm_80, sm_90, sm_100 or sm_120">,
                 Option<"check", "check", "bool", "false", "assemble with ptxas">];
}

#endif // CODEGEN_GPU_PASSES_TD
