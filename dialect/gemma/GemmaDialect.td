// The gemma dialect: what a Gemma 4 text model computes, one op per Op Spec of the spec page.
#ifndef GEMMA_DIALECT_TD
#define GEMMA_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

def Gemma_Dialect : Dialect {
  let name = "gemma";
  let cppNamespace = "::gemma::ir";
  let summary = "the nodes of the Gemma 4 Model Spec";
  let description = [{
    One op per Op Spec, named after it in snake_case. An op of a model carries its spec key as
    location: `loc("layers[3].attn.qkv_proj")`. Ops are pure; a cache is a linear value: an append
    consumes one version and gives the next, and no version is read after it was appended to.

    Shapes: T tokens of a step, R selected rows, H hidden, heads and D as in the spec page. Weights
    are symbols (`program.weight`) and never values: no weight enters the IR.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::tensor::TensorDialect", "::gemma::program::ProgramDialect"];
}

class Gemma_Op<string mnemonic, list<Trait> traits = []>
    : Op<Gemma_Dialect, mnemonic, traits>;

#endif // GEMMA_DIALECT_TD
