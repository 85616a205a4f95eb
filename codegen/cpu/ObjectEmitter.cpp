#include "codegen/cpu/ObjectEmitter.h"

#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace gemma::codegen {

Expected<EmittedObject> emitObject(mlir::ModuleOp module, const HostIsa &isa, bool withText,
                                   const std::function<void(llvm::Module &)> &translated) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> ir = mlir::translateModuleToLLVMIR(module, context, isa.name);
  if (!ir)
    return internalError("cannot translate host kernels for " + isa.name + " to LLVM IR");
  if (translated)
    translated(*ir);
  return emitMachineCode(*ir, isa, withText);
}

} // namespace gemma::codegen
