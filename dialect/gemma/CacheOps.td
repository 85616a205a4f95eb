// Writing the key/value cache.
#ifndef GEMMA_CACHE_OPS_TD
#define GEMMA_CACHE_OPS_TD

include "dialect/gemma/GemmaOpBase.td"

def Gemma_CacheAppendOp : Gemma_Op<"cache_append", [Pure, AllTypesMatch<["cache", "y"]>,
                                                    Gemma_SymbolUser]> {
  let summary = "the cache with the step's keys and values at their positions";
  let description = [{
    The new version holds `k[t]` and `v[t]` at the position of token t of its sequence, and what the
    old one held elsewhere. A version is linear: at most one append consumes it, and nothing reads it
    then (gqa_c4), so that the write can be made in place. Without `k` the values are stored alone.

    Constraints:
    - (`cache_append_c1`) no other `cache_append` consumes the same version
    - (`cache_append_c2`) the cache is a `program.cache` with the heads and the dimension of `v`
    - (`cache_append_c3`) there is a `k` if and only if the cache stores keys
    - (`cache_append_c4`) `k` has the type of `v`

    ```mlir
    %new = gemma.cache_append %cache, %k, %v, %batch : !gemma.cache<@c0>, tensor<?x2x16xf32>
    ```
    ```mlir
    %values = gemma.cache_append %shared, %v, %batch : !gemma.cache<@c2>, tensor<?x2x16xf32>
    ```
  }];
  let arguments = (ins Gemma_CacheType:$cache, Optional<Gemma_Heads>:$k, Gemma_Heads:$v,
                       Gemma_BatchType:$batch);
  let results = (outs Gemma_CacheType:$y);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

#endif // GEMMA_CACHE_OPS_TD
