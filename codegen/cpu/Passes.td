// The passes of the host code generator.
#ifndef CODEGEN_CPU_PASSES_TD
#define CODEGEN_CPU_PASSES_TD

include "mlir/Pass/PassBase.td"

def LowerKernelsToHost : Pass<"gemma-lower-kernels-to-host", "::mlir::ModuleOp"> {
  let summary = "Lower kernels to host functions over the vector dialect";
  let description = [{
    Replaces every `kernel.func` by a `func.func` with the signature of `GemmaKernel`
    (runtime/abi/KernelAbi.h): `(args, begin, end, scratch)`. Its scratch bytes become the attribute
    `gemma.scratch_bytes`.
  }];
  let options = [Option<"isa", "isa", "std::string", "\"avx2\"",
                        "instruction set: avx512vnni, avx512, avx2 or baseline">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect"];
}

#endif // CODEGEN_CPU_PASSES_TD
