// The passes and pipelines of GPU code generation.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace gemma::codegen {

#define GEN_PASS_DECL
#include "codegen/gpu/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "codegen/gpu/Passes.h.inc"

/// gpu.module of gpu, scf, arith, vector, NVVM and LLVM -> gpu.module of the LLVM dialect.
void buildGpuToLLVMPipeline(mlir::OpPassManager &pm);

} // namespace gemma::codegen
