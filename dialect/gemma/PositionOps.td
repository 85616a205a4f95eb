// Rotary position embeddings.
#ifndef GEMMA_POSITION_OPS_TD
#define GEMMA_POSITION_OPS_TD

include "dialect/gemma/GemmaOpBase.td"

def Gemma_RopeOp : Gemma_SameTypeOp<"rope"> {
  let summary = "rotate-half RoPE on the first rot coordinates, active frequencies";
  let description = [{
    Rotates the pairs (i, i + rot/2) of each head by `pos · θ^(-2i/denom)` for i < `active`; other
    pairs and coordinates ≥ `rot` stay as they are. Spec: `rope`. Folds to `x` when `active` is 0.

    Constraints:
    - (`rope_c1`) `theta` is positive and finite
    - (`rope_c2`) `rot` is even, at least 2 and at most D
    - (`rope_c3`) `denom` ≥ 1
    - (`rope_c4`) 0 ≤ `active` ≤ `rot` / 2

    ```mlir
    %y = gemma.rope %q, %batch {theta = 1.0e6 : f64, rot = 16 : i64, denom = 16 : i64, active = 2 : i64}
      : tensor<?x4x16xf32>
    ```
  }];
  let arguments = (ins Gemma_Heads:$x, Gemma_BatchType:$batch, F64Attr:$theta, I64Attr:$rot,
                       I64Attr:$denom, I64Attr:$active);
  let results = (outs Gemma_Heads:$y);
  let assemblyFormat = "$x `,` $batch attr-dict `:` type($x)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Gemma_RopeStdOp : Gemma_SameTypeOp<"rope_std"> {
  let summary = "standard (partial) RoPE: rope with denom = rot and active = rot / 2";
  let description = [{
    Rotates the pairs (i, i + rot/2) of each head by `pos · θ^(-2i/rot)`, i < rot/2. Spec: `ropeStd`.

    Constraints:
    - (`rope_std_c1`) `theta` is positive and finite
    - (`rope_std_c2`) `rot` is even, at least 2 and at most D

    ```mlir
    %y = gemma.rope_std %q, %batch {theta = 1.0e4 : f64, rot = 8 : i64} : tensor<?x4x16xf32>
    ```
  }];
  let arguments = (ins Gemma_Heads:$x, Gemma_BatchType:$batch, F64Attr:$theta, I64Attr:$rot);
  let results = (outs Gemma_Heads:$y);
  let assemblyFormat = "$x `,` $batch attr-dict `:` type($x)";
  let hasVerifier = 1;
}

#endif // GEMMA_POSITION_OPS_TD
