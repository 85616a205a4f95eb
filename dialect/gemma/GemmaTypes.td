// Types of the gemma dialect: the ragged batch and the cache value.
#ifndef GEMMA_TYPES_TD
#define GEMMA_TYPES_TD

include "dialect/gemma/GemmaDialect.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"

class Gemma_Type<string name, string typeMnemonic> : TypeDef<Gemma_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Gemma_BatchType : Gemma_Type<"Batch", "batch"> {
  let summary = "the ragged batch of one step";
  let description = [{
    Stands for `positions[T], row_starts[B+1], seq_lens[B], slots[B], page_table[B, P]`: which
    sequence a token belongs to, its absolute position, and where its keys and values lie.
    `!gemma.batch`.
  }];
}

def Gemma_CacheType : Gemma_Type<"Cache", "cache"> {
  let summary = "one version of a layer's key/value cache";
  let description = "`!gemma.cache<@c3>`: the symbol names a `program.cache`.";
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$symbol);
  let assemblyFormat = "`<` $symbol `>`";
}

#endif // GEMMA_TYPES_TD
