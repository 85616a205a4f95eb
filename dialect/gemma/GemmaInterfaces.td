// Interfaces of the gemma dialect.
#ifndef GEMMA_INTERFACES_TD
#define GEMMA_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Gemma_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::gemma::ir";
  let description = [{
    What the op does and moves, as a function of the step's sizes. FLOPs: 2 a multiply-add of a
    contraction, 1 an elementwise operation is not counted; bytes: weights read once, activations
    read and written, visible keys and values read.
  }];
  let methods = [InterfaceMethod<"FLOPs and bytes at these sizes", "::gemma::ir::Cost", "getCost",
                                 (ins "const ::gemma::ir::CostSizes &":$sizes)>];
}

def Gemma_SpecOpInterface : OpInterface<"SpecOpInterface"> {
  let cppNamespace = "::gemma::ir";
  let description = "Names the Op Spec that the op implements and prints its formula.";
  let methods = [
    InterfaceMethod<"the Op Spec's name as the spec page spells it (rmsnormUnit, slidingGQA, ...)",
                    "::llvm::StringRef", "getOpSpec", (ins)>,
    InterfaceMethod<"the formula, as in the spec page's node table", "::std::string", "getFormula",
                    (ins)>,
  ];
}

#endif // GEMMA_INTERFACES_TD
