// Normalisations of the last axis.
#ifndef GEMMA_NORM_OPS_TD
#define GEMMA_NORM_OPS_TD

include "dialect/gemma/GemmaOpBase.td"

class Gemma_WeightedNormOp<string mnemonic> : Gemma_SameTypeOp<mnemonic, "x", [Gemma_SymbolUser]> {
  let arguments = (ins Gemma_Rows:$x, FlatSymbolRefAttr:$weight, F64Attr:$eps);
  let results = (outs Gemma_Rows:$y);
  let assemblyFormat = "$x `,` $weight attr-dict `:` type($x)";
  let hasVerifier = 1;
}

class Gemma_UnitNormOp<string mnemonic> : Gemma_SameTypeOp<mnemonic> {
  let arguments = (ins Gemma_Rows:$x, F64Attr:$eps);
  let results = (outs Gemma_Rows:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def Gemma_RmsNormOp : Gemma_WeightedNormOp<"rmsnorm"> {
  let summary = "RMSNorm with the weight applied as w";
  let description = [{
    `y[t,i] = x[t,i] / √(Σⱼ x[t,j]² / H + ε) · w[i]`, H the size of the last axis; a rank-3 operand
    is normalised per head. Spec: `rmsnorm`.

    Constraints:
    - (`rmsnorm_c1`) `eps` is positive and finite
    - (`rmsnorm_c2`) `weight` names a `program.weight` of shape [H]

    ```mlir
    %y = gemma.rmsnorm %x, @norm {eps = 1.0e-6 : f64} : tensor<?x96xf32>
    ```
  }];
}
def Gemma_RmsNormOffsetOp : Gemma_WeightedNormOp<"rmsnorm_offset"> {
  let summary = "RMSNorm with the weight applied as 1 + w";
  let description = [{
    `y[t,i] = x[t,i] / √(Σⱼ x[t,j]² / H + ε) · (1 + w[i])`. Spec: `rmsnormOffset`.

    Constraints:
    - (`rmsnorm_offset_c1`) `eps` is positive and finite
    - (`rmsnorm_offset_c2`) `weight` names a `program.weight` of shape [H]

    ```mlir
    %y = gemma.rmsnorm_offset %x, @norm {eps = 1.0e-6 : f64} : tensor<?x96xf32>
    ```
  }];
}
def Gemma_RmsNormUnitOp : Gemma_UnitNormOp<"rmsnorm_unit"> {
  let summary = "RMSNorm without a weight";
  let description = [{
    `y[t,i] = x[t,i] / √(Σⱼ x[t,j]² / H + ε)`. Spec: `rmsnormUnit`.

    Constraints:
    - (`rmsnorm_unit_c1`) `eps` is positive and finite

    ```mlir
    %y = gemma.rmsnorm_unit %v {eps = 1.0e-6 : f64} : tensor<?x2x16xf32>
    ```
  }];
}
def Gemma_L2NormOp : Gemma_UnitNormOp<"l2norm"> {
  let summary = "L2 normalisation";
  let description = [{
    `y[t,i] = x[t,i] / √(Σⱼ x[t,j]² + ε)`. Spec: `l2norm`.

    Constraints:
    - (`l2norm_c1`) `eps` is positive and finite

    ```mlir
    %y = gemma.l2norm %x {eps = 1.0e-6 : f64} : tensor<?x96xf32>
    ```
  }];
}
def Gemma_RmsNormGatedOp : Gemma_SameTypeOp<"rmsnorm_gated", "x", [AllTypesMatch<["x", "z"]>,
                                                                   Gemma_SymbolUser]> {
  let summary = "RMSNorm times silu of a gate";
  let description = [{
    `y[t,i] = w[i] · (x[t,i] / √(Σⱼ x[t,j]² / H + ε)) · silu(z[t,i])`. Spec: `rmsnormGated`.

    Constraints:
    - (`rmsnorm_gated_c1`) `eps` is positive and finite
    - (`rmsnorm_gated_c2`) `weight` names a `program.weight` of shape [H]

    ```mlir
    %y = gemma.rmsnorm_gated %x, %z, @norm {eps = 1.0e-6 : f64} : tensor<?x96xf32>
    ```
  }];
  let arguments = (ins Gemma_Rows:$x, Gemma_Rows:$z, FlatSymbolRefAttr:$weight, F64Attr:$eps);
  let results = (outs Gemma_Rows:$y);
  let assemblyFormat = "$x `,` $z `,` $weight attr-dict `:` type($x)";
  let hasVerifier = 1;
}

#endif // GEMMA_NORM_OPS_TD
