// RUN: gemma-opt %s --split-input-file --verify-diagnostics

// embed_c1
program.weight @embed : tensor<512x96xf32> from ["w"]
func.func @f(%tokens: tensor<4xi32>) {
  // expected-error @+1 {{expected a result of 4 rows, got 5}}
  %x = gemma.embed %tokens, @embed {mul = 1.0 : f64} : tensor<4xi32> -> tensor<5x96xf32>
  return
}

// -----

// embed_c2
program.weight @embed : tensor<512x96xf32> from ["w"]
func.func @f(%tokens: tensor<?xi32>) {
  // expected-error @+1 {{expected a finite mul, got +Inf}}
  %x = gemma.embed %tokens, @embed {mul = 0x7FF0000000000000 : f64} : tensor<?xi32> -> tensor<?x96xf32>
  return
}

// -----

// embed_c3: hidden size
// expected-note @+1 {{the weight is here}}
program.weight @embed : tensor<512x96xf32> from ["w"]
func.func @f(%tokens: tensor<?xi32>) {
  // expected-error @+1 {{expected weight @embed of shape [512, 64], got 'tensor<512x96xf32>'}}
  %x = gemma.embed %tokens, @embed {mul = 1.0 : f64} : tensor<?xi32> -> tensor<?x64xf32>
  return
}

// -----

// embed_c3: no such symbol
func.func @f(%tokens: tensor<?xi32>) {
  // expected-error @+1 {{expected @embed to name a program.weight}}
  %x = gemma.embed %tokens, @embed {mul = 1.0 : f64} : tensor<?xi32> -> tensor<?x64xf32>
  return
}

// -----

// embed_c3: another kind of symbol
func.func @f(%tokens: tensor<?xi32>) {
  // expected-error @+1 {{expected @f to name a program.weight}}
  %x = gemma.embed %tokens, @f {mul = 1.0 : f64} : tensor<?xi32> -> tensor<?x64xf32>
  return
}

// -----

// The hidden size is static.
program.weight @embed : tensor<512x96xf32> from ["w"]
func.func @f(%tokens: tensor<?xi32>) {
  // expected-error @+1 {{result #0 must be [T, N] floats with static N}}
  %x = gemma.embed %tokens, @embed {mul = 1.0 : f64} : tensor<?xi32> -> tensor<?x?xf32>
  return
}

// -----

// select_rows_c1
func.func @f(%x: tensor<?x96xf32>, %rows: tensor<2xi32>) {
  // expected-error @+1 {{expected a result of 2 rows, got 3}}
  %y = gemma.select_rows %x, %rows : tensor<?x96xf32>, tensor<2xi32> -> tensor<3x96xf32>
  return
}

// -----

// select_rows_c2: columns
func.func @f(%x: tensor<?x96xf32>, %rows: tensor<?xi32>) {
  // expected-error @+1 {{expected a result of 96 columns, got 95}}
  %y = gemma.select_rows %x, %rows : tensor<?x96xf32>, tensor<?xi32> -> tensor<?x95xf32>
  return
}

// -----

// select_rows_c2: element type
func.func @f(%x: tensor<?x96xf32>, %rows: tensor<?xi32>) {
  // expected-error @+1 {{expected a result of 'f32', got 'f64'}}
  %y = gemma.select_rows %x, %rows : tensor<?x96xf32>, tensor<?xi32> -> tensor<?x96xf64>
  return
}

// -----

// lm_head_c1
program.weight @embed : tensor<512x96xf32> from ["w"]
func.func @f(%x: tensor<3x96xf32>) {
  // expected-error @+1 {{expected a result of 3 rows, got 2}}
  %z = gemma.lm_head %x, @embed : tensor<3x96xf32> -> tensor<2x512xf32>
  return
}

// -----

// lm_head_c2
program.weight @embed : tensor<512x96xf32> from ["w"]
func.func @f(%x: tensor<?x96xf32>) {
  // expected-error @+1 {{expected a finite mul, got NaN}}
  %z = gemma.lm_head %x, @embed {mul = 0x7FF8000000000000 : f64} : tensor<?x96xf32> -> tensor<?x512xf32>
  return
}

// -----

// lm_head_c3
program.weight @embed : tensor<512x96xf32> from ["w"]
func.func @f(%x: tensor<?x96xf32>) {
  // expected-error @+1 {{expected a positive finite softcap, got 0}}
  %z = gemma.lm_head %x, @embed {softcap = 0.0 : f64} : tensor<?x96xf32> -> tensor<?x512xf32>
  return
}

// -----

// lm_head_c4
// expected-note @+1 {{the weight is here}}
program.weight @embed : tensor<512x96xf32> from ["w"]
func.func @f(%x: tensor<?x96xf32>) {
  // expected-error @+1 {{expected weight @embed of shape [511, 96], got 'tensor<512x96xf32>'}}
  %z = gemma.lm_head %x, @embed : tensor<?x96xf32> -> tensor<?x511xf32>
  return
}

// -----

// top_k_c1
func.func @f(%x: tensor<?x8xf32>) {
  // expected-error @+1 {{expected k in [1, 8], got 9}}
  %v, %i = gemma.top_k %x {k = 9 : i64} : tensor<?x8xf32> -> tensor<?x9xf32>, tensor<?x9xi32>
  return
}

// -----

// top_k_c2
func.func @f(%x: tensor<?x8xf32>) {
  // expected-error @+1 {{expected values of 4 columns, got 3}}
  %v, %i = gemma.top_k %x {k = 4 : i64} : tensor<?x8xf32> -> tensor<?x3xf32>, tensor<?x4xi32>
  return
}

// -----

// top_k_c3
func.func @f(%x: tensor<?x8xf32>) {
  // expected-error @+1 {{expected ids of shape [R, 4], got 'tensor<?x5xi32>'}}
  %v, %i = gemma.top_k %x {k = 4 : i64} : tensor<?x8xf32> -> tensor<?x4xf32>, tensor<?x5xi32>
  return
}
