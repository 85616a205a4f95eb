// Linear maps, gated activations, residuals.
#ifndef GEMMA_FEED_FORWARD_OPS_TD
#define GEMMA_FEED_FORWARD_OPS_TD

include "dialect/gemma/GemmaOpBase.td"

def Gemma_LinearOp : Gemma_NodeOp<"linear", [Gemma_SymbolUser]> {
  let summary = "y = x Wᵀ, W stored [N, K]";
  let description = [{
    `y[t,n] = Σₖ x[t,k] · w[n,k]`. Spec: `linear`; also `gateUp`, whose weight concatenates the gate
    and the up projection.

    Constraints:
    - (`linear_c1`) `y` has the rows of `x`
    - (`linear_c2`) `y` has the element type of `x`
    - (`linear_c3`) `weight` names a `program.weight` of shape [N, K]: N the columns of `y`, K those
      of `x`

    ```mlir
    %y = gemma.linear %x, @o_proj : tensor<?x64xf32> -> tensor<?x96xf32>
    ```
  }];
  let arguments = (ins Gemma_Rows2:$x, FlatSymbolRefAttr:$weight);
  let results = (outs Gemma_Rows2:$y);
  let assemblyFormat = "$x `,` $weight attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
}

class Gemma_GatedActivationOp<string mnemonic> : Gemma_NodeOp<mnemonic> {
  let arguments = (ins Gemma_Rows2:$x);
  let results = (outs Gemma_Rows2:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
}
def Gemma_GeluMulOp : Gemma_GatedActivationOp<"gelu_mul"> {
  let summary = "GeGLU (tanh) of a fused [gate ‖ up] row";
  let description = [{
    `y[t,i] = gelu_tanh(x[t,i]) · x[t,I+i]`, I the columns of `y`;
    gelu_tanh(x) = x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))). Spec: `geluMul`.

    Constraints:
    - (`gelu_mul_c1`) `y` has the rows of `x`
    - (`gelu_mul_c2`) `y` has the element type of `x`
    - (`gelu_mul_c3`) `x` has twice the columns of `y`

    ```mlir
    %y = gemma.gelu_mul %gate_up : tensor<?x256xf32> -> tensor<?x128xf32>
    ```
  }];
}
def Gemma_SiluMulOp : Gemma_GatedActivationOp<"silu_mul"> {
  let summary = "SwiGLU of a fused [gate ‖ up] row";
  let description = [{
    `y[t,i] = silu(x[t,i]) · x[t,I+i]`, I the columns of `y`; silu(x) = x / (1 + e^(-x)). Spec:
    `siluMul`.

    Constraints:
    - (`silu_mul_c1`) `y` has the rows of `x`
    - (`silu_mul_c2`) `y` has the element type of `x`
    - (`silu_mul_c3`) `x` has twice the columns of `y`

    ```mlir
    %y = gemma.silu_mul %gate_up : tensor<?x256xf32> -> tensor<?x128xf32>
    ```
  }];
}

def Gemma_ResidualOp : Gemma_SameTypeOp<"residual", "x", [AllTypesMatch<["x", "h"]>,
                                                          Gemma_SymbolUser]> {
  let summary = "y = s · (x + r · h); s is a learned scalar of the layer, or 1";
  let description = [{
    `y[t,i] = s · (x[t,i] + r · h[t,i])`. Spec: `residual`, with the layer scalar s of Gemma 4's node
    tables. Folds to `x` when r is 0 and there is no layer scalar.

    Constraints:
    - (`residual_c1`) `r` is finite
    - (`residual_c2`) `layer_scalar` names a `program.weight` of shape [1]

    ```mlir
    %y = gemma.residual %x, %h scale @layer_scalar : tensor<?x96xf32>
    ```
  }];
  let arguments = (ins Gemma_Rows2:$x, Gemma_Rows2:$h, DefaultValuedAttr<F64Attr, "1.0">:$r,
                       OptionalAttr<FlatSymbolRefAttr>:$layer_scalar);
  let results = (outs Gemma_Rows2:$y);
  let assemblyFormat = "$x `,` $h (`scale` $layer_scalar^)? attr-dict `:` type($x)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

#endif // GEMMA_FEED_FORWARD_OPS_TD
