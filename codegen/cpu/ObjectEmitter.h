// LLVM dialect -> LLVM IR -> machine code of one instruction set.
#pragma once

#include "codegen/cpu/MachineCode.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>

namespace gemma::codegen {

/// Compiles a module of the LLVM dialect to a relocatable ELF object. Its functions call nothing:
/// idioms are not turned into memset or memcpy. The context has what
/// registerHostCodegenDialects() registers. `translated` is called with the LLVM IR before it is
/// optimised, if there is such a function. Several threads may call it.
Expected<EmittedObject> emitObject(mlir::ModuleOp module, const HostIsa &isa, bool withText,
                                   const std::function<void(llvm::Module &)> &translated);

} // namespace gemma::codegen
