#include "codegen/cpu/ObjectEmitter.h"

#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace gemma::codegen {

Expected<EmittedObject> emitObject(mlir::ModuleOp module, const HostIsa &isa,
                                   const CodegenOptions &options) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> ir = mlir::translateModuleToLLVMIR(module, context, isa.name);
  if (!ir)
    return internalError("cannot translate host kernels for " + isa.name + " to LLVM IR");
  if (options.translated)
    options.translated(*ir);
  return emitMachineCode(*ir, isa, /*withText=*/!options.dumpDir.empty());
}

} // namespace gemma::codegen
