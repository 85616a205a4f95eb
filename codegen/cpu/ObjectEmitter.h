// LLVM dialect -> LLVM IR -> machine code of one instruction set.
#pragma once

#include "codegen/cpu/HostCodegen.h"
#include "codegen/cpu/MachineCode.h"

namespace gemma::codegen {

/// Compiles a module of the LLVM dialect to a relocatable ELF object. Its functions call nothing:
/// idioms are not turned into memset or memcpy. The context has what
/// registerHostCodegenDialects() registers. Several threads may call it.
Expected<EmittedObject> emitObject(mlir::ModuleOp module, const HostIsa &isa,
                                   const CodegenOptions &options);

} // namespace gemma::codegen
