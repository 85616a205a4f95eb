// LLVM IR -> machine code of one instruction set.
#pragma once

#include "codegen/cpu/HostIsa.h"
#include "runtime/support/Status.h"

#include <string>

namespace llvm {
class Module;
}

namespace gemma::codegen {

/// An object file, and its text forms when asked for.
struct EmittedObject {
  std::string object;
  std::string ir; ///< optimised LLVM IR
  std::string assembly;
};

enum class OptimizationEffort {
  Full,   ///< kernels that run as they are
  Modest, ///< the emulator's: long, full of calls, compiled often
  Little, ///< code that is compiled to run once
};

/// Optimises `module` in place and compiles it to a relocatable ELF object. Its functions call
/// nothing that they did not call before: idioms are not turned into memset or memcpy.
Expected<EmittedObject> emitMachineCode(llvm::Module &module, const HostIsa &isa, bool withText,
                                        OptimizationEffort effort = OptimizationEffort::Full);

} // namespace gemma::codegen
