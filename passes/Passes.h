// Every pass of the compiler (see Passes.td).
#pragma once

#include "dialect/gemma/Gemma.h"
#include "dialect/kernel/Kernel.h"
#include "dialect/program/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace gemma::passes {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

/// How far a pass that changes the arithmetic may move an f64 output, max|d| / max|ref|; 0, every
/// bit stays, for all but gemma-share-kv. `pass` is its argument.
inline double declaredBound(llvm::StringRef pass) { return pass == "gemma-share-kv" ? 1e-13 : 0; }

} // namespace gemma::passes
