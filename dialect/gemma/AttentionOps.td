// Softmax attention over a cache.
#ifndef GEMMA_ATTENTION_OPS_TD
#define GEMMA_ATTENTION_OPS_TD

include "dialect/gemma/GemmaOpBase.td"

def Gemma_GqaOp : Gemma_SameTypeOp<"gqa", "q", [Gemma_SymbolUser]> {
  let summary = "grouped-query attention: causal, or sliding with a window";
  let description = [{
    `y[t,h] = Σ_l softmax_l(scale · ⟨q[t,h], k[l,c]⟩) · v[l,c]`, c = h / (heads / kv_heads), over the
    positions l ≤ p of the token's own sequence, p its position, and with `window` w only p - w < l.
    Spec: `causalGQA`, `slidingGQA`; one query a sequence is `decodeGQA`, `slidingDecodeGQA`.
    With `keys` the cache stores values alone, and `k[l,c] = rope(w ⊙ v[l,c])` as it says.

    Constraints:
    - (`gqa_c1`) `kv_heads` ≥ 1 divides the heads of `q`
    - (`gqa_c2`) `scale` is finite
    - (`gqa_c3`) `window` ≥ 1
    - (`gqa_c4`) no `cache_append` consumes the version that is read
    - (`gqa_c5`) the cache is a `program.cache` with `kv_heads` heads of D
    - (`gqa_c6`) `window` is the window of the `program.cache` (absent: 0)
    - (`gqa_c7`) there are `keys` if and only if the cache stores no keys
    - (`gqa_c8`) `keys` rotates at most D coordinates, and its norm is a `program.weight` of [D]

    ```mlir
    %y = gemma.gqa %q, %cache, %batch {kv_heads = 2 : i64, scale = 1.0 : f64, window = 8 : i64}
      : tensor<?x4x16xf32>, !gemma.cache<@c0>
    ```
  }];
  let arguments = (ins Gemma_Heads:$q, Gemma_CacheType:$cache, Gemma_BatchType:$batch,
                       I64Attr:$kv_heads, F64Attr:$scale, OptionalAttr<I64Attr>:$window,
                       OptionalAttr<Gemma_KeysOfValuesAttr>:$keys);
  let results = (outs Gemma_Heads:$y);
  let assemblyFormat = "$q `,` $cache `,` $batch attr-dict `:` type($q) `,` type($cache)";
  let hasVerifier = 1;
}

def Gemma_SigmoidGateOp : Gemma_SameTypeOp<"sigmoid_gate", "x", [AllTypesMatch<["x", "gate"]>]> {
  let summary = "output gate of gated attention: x times sigmoid(gate)";
  let description = [{
    `y[t,i] = x[t,i] · σ(gate[t,i])`. Spec: `sigmoidGate`.

    ```mlir
    %y = gemma.sigmoid_gate %x, %gate : tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Gemma_Rows:$x, Gemma_Rows:$gate);
  let results = (outs Gemma_Rows:$y);
  let assemblyFormat = "$x `,` $gate attr-dict `:` type($x)";
}

#endif // GEMMA_ATTENTION_OPS_TD
