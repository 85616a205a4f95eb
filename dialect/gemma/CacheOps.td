// Writing the key/value cache.
#ifndef GEMMA_CACHE_OPS_TD
#define GEMMA_CACHE_OPS_TD

include "dialect/gemma/GemmaOpBase.td"

def Gemma_CacheAppendOp : Gemma_Op<"cache_append", [Pure, AllTypesMatch<["cache", "y"]>,
                                                    AllTypesMatch<["k", "v"]>, Gemma_SymbolUser]> {
  let summary = "the cache with the step's keys and values at their positions";
  let description = [{
    The new version holds `k[t]` and `v[t]` at the position of token t of its sequence, and what the
    old one held elsewhere. A version is linear: at most one append consumes it, and nothing reads it
    then (gqa_c4), so that the write can be made in place.

    Constraints:
    - (`cache_append_c1`) no other `cache_append` consumes the same version
    - (`cache_append_c2`) the cache is a `program.cache` with the heads and the dimension of `k`

    ```mlir
    %new = gemma.cache_append %cache, %k, %v, %batch : !gemma.cache<@c0>, tensor<?x2x16xf32>
    ```
  }];
  let arguments = (ins Gemma_CacheType:$cache, Gemma_Heads:$k, Gemma_Heads:$v,
                       Gemma_BatchType:$batch);
  let results = (outs Gemma_CacheType:$y);
  let assemblyFormat = "$cache `,` $k `,` $v `,` $batch attr-dict `:` type($cache) `,` type($k)";
  let hasVerifier = 1;
}

#endif // GEMMA_CACHE_OPS_TD
