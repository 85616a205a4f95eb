// Linear maps, gated activations, residuals.
#ifndef GEMMA_FEED_FORWARD_OPS_TD
#define GEMMA_FEED_FORWARD_OPS_TD

include "dialect/gemma/GemmaOpBase.td"

def Gemma_LinearOp : Gemma_NodeOp<"linear"> {
  let summary = "y = x Wᵀ, W stored [N, K]";
  let arguments = (ins Gemma_Rows2:$x, FlatSymbolRefAttr:$weight);
  let results = (outs Gemma_Rows2:$y);
  let assemblyFormat = "$x `,` $weight attr-dict `:` type($x) `->` type($y)";
}

class Gemma_GatedActivationOp<string mnemonic> : Gemma_NodeOp<mnemonic> {
  let arguments = (ins Gemma_Rows2:$x);
  let results = (outs Gemma_Rows2:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
}
def Gemma_GeluMulOp : Gemma_GatedActivationOp<"gelu_mul"> {
  let summary = "GeGLU (tanh) of a fused [gate ‖ up] row";
}
def Gemma_SiluMulOp : Gemma_GatedActivationOp<"silu_mul"> {
  let summary = "SwiGLU of a fused [gate ‖ up] row";
}

def Gemma_ResidualOp : Gemma_SameTypeOp<"residual", "x", [AllTypesMatch<["x", "h"]>]> {
  let summary = "y = s · (x + r · h); s is a learned scalar of the layer, or 1";
  let arguments = (ins Gemma_Rows2:$x, Gemma_Rows2:$h, DefaultValuedAttr<F64Attr, "1.0">:$r,
                       OptionalAttr<FlatSymbolRefAttr>:$layer_scalar);
  let results = (outs Gemma_Rows2:$y);
  let assemblyFormat = "$x `,` $h (`scale` $layer_scalar^)? attr-dict `:` type($x)";
}

#endif // GEMMA_FEED_FORWARD_OPS_TD
