// Rotary position embeddings.
#ifndef GEMMA_POSITION_OPS_TD
#define GEMMA_POSITION_OPS_TD

include "dialect/gemma/GemmaOpBase.td"

def Gemma_RopeOp : Gemma_SameTypeOp<"rope"> {
  let summary = "rotate-half RoPE on the first rot coordinates, active frequencies";
  let arguments = (ins Gemma_Heads:$x, Gemma_BatchType:$batch, F64Attr:$theta, I64Attr:$rot,
                       I64Attr:$denom, I64Attr:$active);
  let results = (outs Gemma_Heads:$y);
  let assemblyFormat = "$x `,` $batch attr-dict `:` type($x)";
}

def Gemma_RopeStdOp : Gemma_SameTypeOp<"rope_std"> {
  let summary = "standard (partial) RoPE: rope with denom = rot and active = rot / 2";
  let arguments = (ins Gemma_Heads:$x, Gemma_BatchType:$batch, F64Attr:$theta, I64Attr:$rot);
  let results = (outs Gemma_Heads:$y);
  let assemblyFormat = "$x `,` $batch attr-dict `:` type($x)";
}

#endif // GEMMA_POSITION_OPS_TD
