// Interfaces of the kernel dialect.
#ifndef KERNEL_INTERFACES_TD
#define KERNEL_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Kernel_ScratchOpInterface : OpInterface<"ScratchOpInterface"> {
  let cppNamespace = "::gemma::kernel";
  let description = [{
    An op that on the host works in memory of the worker. What it takes follows from its attributes
    and types, so that it is planned before there is code and is the same for every instruction set;
    host code takes exactly these blocks.
  }];
  let methods = [InterfaceMethod<"the blocks it works in, in the op's own order",
                                 "::llvm::SmallVector<::mlir::MemRefType>", "getScratchBlocks",
                                 (ins)>];
}

#endif // KERNEL_INTERFACES_TD
