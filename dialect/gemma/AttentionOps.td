// Softmax attention over a cache.
#ifndef GEMMA_ATTENTION_OPS_TD
#define GEMMA_ATTENTION_OPS_TD

include "dialect/gemma/GemmaOpBase.td"

def Gemma_GqaOp : Gemma_SameTypeOp<"gqa", "q"> {
  let summary = "grouped-query attention: causal, or sliding with a window";
  let arguments = (ins Gemma_Heads:$q, Gemma_CacheType:$cache, Gemma_BatchType:$batch,
                       I64Attr:$kv_heads, F64Attr:$scale, OptionalAttr<I64Attr>:$window);
  let results = (outs Gemma_Heads:$y);
  let assemblyFormat = "$q `,` $cache `,` $batch attr-dict `:` type($q) `,` type($cache)";
}

def Gemma_SigmoidGateOp : Gemma_SameTypeOp<"sigmoid_gate", "x", [AllTypesMatch<["x", "gate"]>]> {
  let summary = "output gate of gated attention: x times sigmoid(gate)";
  let arguments = (ins Gemma_Rows:$x, Gemma_Rows:$gate);
  let results = (outs Gemma_Rows:$y);
  let assemblyFormat = "$x `,` $gate attr-dict `:` type($x)";
}

#endif // GEMMA_ATTENTION_OPS_TD
