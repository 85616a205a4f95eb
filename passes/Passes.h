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

} // namespace gemma::passes
