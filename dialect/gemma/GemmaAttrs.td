// Attributes of the gemma dialect.
#ifndef GEMMA_ATTRS_TD
#define GEMMA_ATTRS_TD

include "dialect/gemma/GemmaDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"

def Gemma_NumericsAttr : AttrDef<Gemma_Dialect, "Numerics"> {
  let mnemonic = "numerics";
  let summary = "element types of a program";
  let description = [{
    Set once on the module (`gemma.numerics`); every bound and every plan names it.

    Constraints:
    - (`numerics_c1`) every type is f64, f32, bf16 or f16

    `#gemma.numerics<weights = bf16, activations = f32, accumulate = f32, residual = f32, kv = bf16, logits = f32>`
  }];
  let parameters = (ins "::mlir::Type":$weights, "::mlir::Type":$activations,
                        "::mlir::Type":$accumulate, "::mlir::Type":$residual, "::mlir::Type":$kv,
                        "::mlir::Type":$logits);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // GEMMA_ATTRS_TD
