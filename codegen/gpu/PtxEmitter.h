// GPU code generation: kernels of the kernel dialect that have a `launch` -> PTX text.
#pragma once

#include "codegen/gpu/GpuTarget.h"
#include "runtime/support/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"

#include <map>

namespace gemma::codegen {

/// One kernel, for all targets asked for.
///
/// Its entry has the name of the kernel.func. Parameters: one 64-bit pointer to global memory an
/// argument, in order, then one to the step's GemmaSizes in device memory
/// (runtime/abi/KernelAbi.h). It is launched with `threads` threads and `sharedBytes` of dynamic
/// shared memory a block, and at least as many blocks, in x, as its grid says.
struct PtxKernel {
  std::string name;
  int64_t threads = 0;
  int64_t sharedBytes = 0;
  std::map<std::string, std::string> ptx; ///< GpuTarget::name -> text
  /// `.loc 1 LINE 0` in the text: what follows computes nodes[LINE - 1] of the spec.
  std::vector<std::string> nodes;
};

/// The dialects that GPU code generation makes.
void registerGpuCodegenDialects(mlir::DialectRegistry &registry);

/// Compiles every kernel.func of `module` that has a launch, in the module's order; the module
/// stays as it is. Fails when a kernel has no form on a GPU, or needs more shared memory than its
/// launch gives.
Expected<std::vector<PtxKernel>> emitPtx(mlir::ModuleOp module,
                                         const std::vector<GpuTarget> &targets);

} // namespace gemma::codegen
