// Ops at both ends of the model: embed, select_rows, lm_head, top_k.
#ifndef GEMMA_EMBEDDING_OPS_TD
#define GEMMA_EMBEDDING_OPS_TD

include "dialect/gemma/GemmaOpBase.td"

def Gemma_EmbedOp : Gemma_NodeOp<"embed", [Gemma_SymbolUser]> {
  let summary = "token embedding with a multiplier";
  let description = [{
    `y[t] = mul · w[tokens[t]]`. Spec: `embed`.

    Constraints:
    - (`embed_c1`) `y` has one row a token
    - (`embed_c2`) `mul` is finite
    - (`embed_c3`) `weight` names a `program.weight` of shape [V, H], H the columns of `y`

    ```mlir
    %y = gemma.embed %tokens, @embed {mul = 9.79795897113271 : f64} : tensor<?xi32> -> tensor<?x96xf32>
    ```
  }];
  let arguments = (ins Gemma_Ids:$tokens, FlatSymbolRefAttr:$weight, F64Attr:$mul);
  let results = (outs Gemma_Rows2:$y);
  let assemblyFormat = "$tokens `,` $weight attr-dict `:` type($tokens) `->` type($y)";
  let hasVerifier = 1;
}

def Gemma_SelectRowsOp : Gemma_RowOp<"select_rows"> {
  let summary = "the rows whose logits are wanted";
  let description = [{
    `y[r] = x[rows[r]]`.

    Constraints:
    - (`select_rows_c1`) `y` has one row an entry of `rows`
    - (`select_rows_c2`) `y` has the columns and the element type of `x`

    ```mlir
    %y = gemma.select_rows %x, %rows : tensor<?x96xf32>, tensor<?xi32> -> tensor<?x96xf32>
    ```
  }];
  let arguments = (ins Gemma_Rows2:$x, Gemma_Ids:$rows);
  let results = (outs Gemma_Rows2:$y);
  let assemblyFormat = "$x `,` $rows attr-dict `:` type($x) `,` type($rows) `->` type($y)";
  let hasVerifier = 1;
  // R rows, not the T of the first operand.
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::reifyResultShapes(
        ::mlir::OpBuilder &builder, ::mlir::ReifiedRankedShapedTypeDims &shapes) {
      return reifyRowsOf(getRows(), getOperation(), builder, shapes);
    }
  }];
}

def Gemma_LmHeadOp : Gemma_NodeOp<"lm_head", [Gemma_SymbolUser]> {
  let summary = "language-model head with optional soft-capping";
  let description = [{
    `z = mul · x wᵀ`, and with `softcap` c: `c · tanh(z / c)`. Spec: `lmHead`. The logits may have
    another element type than `x`.

    Constraints:
    - (`lm_head_c1`) `y` has the rows of `x`
    - (`lm_head_c2`) `mul` is finite
    - (`lm_head_c3`) `softcap` is positive and finite
    - (`lm_head_c4`) `weight` names a `program.weight` of shape [V, H]: V the columns of `y`, H those
      of `x`

    ```mlir
    %z = gemma.lm_head %x, @embed {softcap = 30.0 : f64} : tensor<?x96xf32> -> tensor<?x512xf32>
    ```
  }];
  let arguments = (ins Gemma_Rows2:$x, FlatSymbolRefAttr:$weight,
                       DefaultValuedAttr<F64Attr, "1.0">:$mul, OptionalAttr<F64Attr>:$softcap);
  let results = (outs Gemma_Rows2:$y);
  let assemblyFormat = "$x `,` $weight attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
}

def Gemma_TopKOp : Gemma_RowOp<"top_k"> {
  let summary = "the k largest entries of each row, largest first, ties by the smaller index";
  let description = [{
    `values[r, 0] ≥ values[r, 1] ≥ …` are the k largest of `x[r]`; `ids` are their columns.

    Constraints:
    - (`top_k_c1`) k ≥ 1 and at most the columns of `x`
    - (`top_k_c2`) `values` is [R, k] of the element type of `x`
    - (`top_k_c3`) `ids` is [R, k]

    ```mlir
    %v, %i = gemma.top_k %z {k = 4 : i64} : tensor<?x512xf32> -> tensor<?x4xf32>, tensor<?x4xi32>
    ```
  }];
  let arguments = (ins Gemma_Rows2:$x, I64Attr:$k);
  let results = (outs Gemma_Rows2:$values, RankedTensorOf<[I32]>:$ids);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($values) `,` type($ids)";
  let hasVerifier = 1;
}

#endif // GEMMA_EMBEDDING_OPS_TD
