// LLVM dialect -> LLVM IR -> machine code of one instruction set.
#pragma once

#include "codegen/cpu/HostIsa.h"
#include "runtime/support/Status.h"

#include "mlir/IR/BuiltinOps.h"

namespace gemma::codegen {

/// An object file, and its text forms when asked for.
struct EmittedObject {
  std::string object;
  std::string ir; ///< optimised LLVM IR
  std::string assembly;
};

/// Compiles a module of the LLVM dialect to a relocatable ELF object. Its functions call nothing:
/// idioms are not turned into memset or memcpy.
Expected<EmittedObject> emitObject(mlir::ModuleOp module, const HostIsa &isa, bool withText);

} // namespace gemma::codegen
