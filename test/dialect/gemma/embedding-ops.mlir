// RUN: gemma-opt %s --verify-roundtrip

// The ops at both ends of a model, and two element types of the logits.
program.weight @embed : tensor<512x96xbf16> from ["embed_tokens.weight"]

func.func @ends(%tokens: tensor<?xi32>, %rows: tensor<?xi32>)
    -> (tensor<?x4xf32>, tensor<?x4xi32>, tensor<?x512xbf16>) {
  %x = gemma.embed %tokens, @embed {mul = 9.79795897113271 : f64} : tensor<?xi32> -> tensor<?x96xf32>
  %y = gemma.select_rows %x, %rows : tensor<?x96xf32>, tensor<?xi32> -> tensor<?x96xf32>
  %z = gemma.lm_head %y, @embed {softcap = 30.0 : f64} : tensor<?x96xf32> -> tensor<?x512xf32>
  %narrow = gemma.lm_head %y, @embed {mul = 0.5 : f64} : tensor<?x96xf32> -> tensor<?x512xbf16>
  %v, %i = gemma.top_k %z {k = 4 : i64} : tensor<?x512xf32> -> tensor<?x4xf32>, tensor<?x4xi32>
  return %v, %i, %narrow : tensor<?x4xf32>, tensor<?x4xi32>, tensor<?x512xbf16>
}
