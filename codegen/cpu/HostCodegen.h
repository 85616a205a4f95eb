// Host code generation: kernels of the kernel dialect -> one shared object of an instruction set.
#pragma once

#include "codegen/cpu/HostIsa.h"
#include "runtime/support/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"

#include <functional>

namespace llvm {
class Module;
}

namespace gemma::codegen {

struct CodegenOptions {
  std::string dumpDir{}; ///< if not empty: KERNEL.TARGET.{ll,s,o} of each kernel are written there
  /// Called when work on an instruction set begins, in their order; from one thread at a time.
  std::function<void(const HostIsa &)> started{};
  /// Called with every kernel's LLVM IR before it is optimised, by several threads at a time: tests
  /// replace instructions that the processor lacks.
  std::function<void(llvm::Module &)> translated{};
};

struct HostKernel {
  std::string name;         ///< exported symbol of type GemmaKernel
  int64_t scratchBytes = 0; ///< a worker; the same for every instruction set
};

struct HostObject {
  std::string isa;
  std::string bytes; ///< an ELF shared object that stands alone
  std::vector<HostKernel> kernels;
};

/// The dialects that host code generation makes.
void registerHostCodegenDialects(mlir::DialectRegistry &registry);

/// Compiles every kernel.func of `module`, which stays as it is: one object an instruction set. If
/// the context is multithreaded, kernels are compiled in parallel, with the same result.
Expected<std::vector<HostObject>> compileHostKernels(mlir::ModuleOp module,
                                                     const std::vector<HostIsa> &isas,
                                                     const CodegenOptions &options = {});

} // namespace gemma::codegen
