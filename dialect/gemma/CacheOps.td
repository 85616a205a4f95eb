// Writing the key/value cache.
#ifndef GEMMA_CACHE_OPS_TD
#define GEMMA_CACHE_OPS_TD

include "dialect/gemma/GemmaOpBase.td"

def Gemma_CacheAppendOp : Gemma_Op<"cache_append", [Pure, AllTypesMatch<["cache", "y"]>,
                                                    AllTypesMatch<["k", "v"]>]> {
  let summary = "the cache with the step's keys and values at their positions";
  let arguments = (ins Gemma_CacheType:$cache, Gemma_Heads:$k, Gemma_Heads:$v,
                       Gemma_BatchType:$batch);
  let results = (outs Gemma_CacheType:$y);
  let assemblyFormat = "$cache `,` $k `,` $v `,` $batch attr-dict `:` type($cache) `,` type($k)";
}

#endif // GEMMA_CACHE_OPS_TD
