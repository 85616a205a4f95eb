// Interfaces of the gemma dialect.
#ifndef GEMMA_INTERFACES_TD
#define GEMMA_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Gemma_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::gemma::ir";
  let description = [{
    What the op does and moves, as a function of the step's sizes. FLOPs: 2 a multiply-add of a
    linear map, 4 · heads · D a visible key of attention; elementwise operations are not counted.
    Bytes: weights read once (of a table only the rows that are looked up), activations read and
    written, each visible key and value read once.
  }];
  let methods = [InterfaceMethod<"FLOPs and bytes at these sizes", "::gemma::ir::Cost", "getCost",
                                 (ins "const ::gemma::ir::CostSizes &":$sizes)>];
}

def Gemma_SpecOpInterface : OpInterface<"SpecOpInterface"> {
  let cppNamespace = "::gemma::ir";
  let description = "Names the Op Spec that the op implements; prints its formula and constants.";
  let methods = [
    InterfaceMethod<"the Op Spec's name as the node tables spell it (rmsnormUnit, decodeGQA, ...)",
                    "::llvm::StringRef", "getOpSpec", (ins)>,
    InterfaceMethod<"the formula, as in the spec page's node table", "::std::string", "getFormula",
                    (ins)>,
    InterfaceMethod<"the constants in the node table's order", "::gemma::ir::SpecConstants",
                    "getConstants", (ins)>,
  ];
}

#endif // GEMMA_INTERFACES_TD
