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

    `weights` i8 or i4: matrices are stored in that many bits, in groups of 32 columns with a scale
    each, and contractions round their activations to `codes`, in the same groups. `embedding` is the
    type of the token table and of the head, if it is not that of the other matrices.

    Constraints:
    - (`numerics_c1`) every type is f64, f32, bf16 or f16, but that `weights` and `embedding` may be
      i8 or i4, and `kv` i8
    - (`numerics_c2`) `codes` is i8 or i16; it is there if `weights` or `embedding` is an integer,
      and then activations are accumulated in f32
    - (`numerics_c3`) with `kv` i8 everything is accumulated in f32: a key or value is codes times a
      f32 scale of its position and head (`program.cache`)

    `#gemma.numerics<weights = bf16, activations = f32, accumulate = f32, residual = f32, kv = bf16, logits = f32>`
    `#gemma.numerics<weights = i4, activations = f32, accumulate = f32, residual = f32, kv = bf16, logits = f32, embedding = i8, codes = i8>`
  }];
  let parameters = (ins "::mlir::Type":$weights, "::mlir::Type":$activations,
                        "::mlir::Type":$accumulate, "::mlir::Type":$residual, "::mlir::Type":$kv,
                        "::mlir::Type":$logits, OptionalParameter<"::mlir::Type">:$embedding,
                        OptionalParameter<"::mlir::Type">:$codes);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The type of the token table and of the head.
    ::mlir::Type getTableType() const { return getEmbedding() ? getEmbedding() : getWeights(); }
  }];
}

def Gemma_KeysOfValuesAttr : AttrDef<Gemma_Dialect, "KeysOfValues"> {
  let mnemonic = "keys_of_values";
  let summary = "how a layer's keys are computed from its values";
  let description = [{
    `k[l,c] = rope(w ⊙ v[l,c])`: `norm` names the weight w [D], the rest are the constants of
    `gemma.rope`, at the position l of the value.

    Constraints:
    - (`keys_of_values_c1`) `theta` is an f64, positive and finite
    - (`keys_of_values_c2`) `rot` is even and at least 2, `denom` ≥ 1, 1 ≤ `active` ≤ `rot` / 2

    `#gemma.keys_of_values<norm = @l5.k_norm, theta = 1.0e6 : f64, rot = 512, denom = 512, active = 64>`
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$norm, "::mlir::FloatAttr":$theta,
                        "int64_t":$rot, "int64_t":$denom, "int64_t":$active);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // GEMMA_ATTRS_TD
