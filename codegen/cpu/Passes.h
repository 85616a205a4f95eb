// The passes and pipelines of host code generation.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace gemma::codegen {

#define GEN_PASS_DECL
#include "codegen/cpu/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "codegen/cpu/Passes.h.inc"

/// func, scf, arith, math, vector and memref -> the LLVM dialect.
void buildHostToLLVMPipeline(mlir::OpPassManager &pm);

} // namespace gemma::codegen
