// Ops at both ends of the model: embed, select_rows, lm_head, top_k.
#ifndef GEMMA_EMBEDDING_OPS_TD
#define GEMMA_EMBEDDING_OPS_TD

include "dialect/gemma/GemmaOpBase.td"

def Gemma_EmbedOp : Gemma_NodeOp<"embed"> {
  let summary = "token embedding with a multiplier";
  let arguments = (ins Gemma_Ids:$tokens, FlatSymbolRefAttr:$weight, F64Attr:$mul);
  let results = (outs Gemma_Rows2:$y);
  let assemblyFormat = "$tokens `,` $weight attr-dict `:` type($tokens) `->` type($y)";
}

def Gemma_SelectRowsOp : Gemma_Op<"select_rows", [Pure]> {
  let summary = "the rows whose logits are wanted";
  let arguments = (ins Gemma_Rows2:$x, Gemma_Ids:$rows);
  let results = (outs Gemma_Rows2:$y);
  let assemblyFormat = "$x `,` $rows attr-dict `:` type($x) `,` type($rows) `->` type($y)";
}

def Gemma_LmHeadOp : Gemma_NodeOp<"lm_head"> {
  let summary = "language-model head with optional soft-capping";
  let arguments = (ins Gemma_Rows2:$x, FlatSymbolRefAttr:$weight,
                       DefaultValuedAttr<F64Attr, "1.0">:$mul, OptionalAttr<F64Attr>:$softcap);
  let results = (outs Gemma_Rows2:$y);
  let assemblyFormat = "$x `,` $weight attr-dict `:` type($x) `->` type($y)";
}

def Gemma_TopKOp : Gemma_Op<"top_k", [Pure]> {
  let summary = "the k largest entries of each row, largest first, ties by the smaller index";
  let arguments = (ins Gemma_Rows2:$x, I64Attr:$k);
  let results = (outs Gemma_Rows2:$values, RankedTensorOf<[I32]>:$ids);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($values) `,` type($ids)";
}

#endif // GEMMA_EMBEDDING_OPS_TD
