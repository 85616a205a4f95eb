// RUN: gemma-opt %s --split-input-file --verify-diagnostics

// linear_c1
program.weight @w : tensor<96x64xf32> from ["w"]
func.func @f(%x: tensor<3x64xf32>) {
  // expected-error @+1 {{expected a result of 3 rows, got 4}}
  %y = gemma.linear %x, @w : tensor<3x64xf32> -> tensor<4x96xf32>
  return
}

// -----

// linear_c2
program.weight @w : tensor<96x64xf32> from ["w"]
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{expected a result of 'f32', got 'bf16'}}
  %y = gemma.linear %x, @w : tensor<?x64xf32> -> tensor<?x96xbf16>
  return
}

// -----

// linear_c3: N and K in the wrong order
// expected-note @+1 {{the weight is here}}
program.weight @w : tensor<64x96xf32> from ["w"]
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{expected weight @w of shape [96, 64], got 'tensor<64x96xf32>'}}
  %y = gemma.linear %x, @w : tensor<?x64xf32> -> tensor<?x96xf32>
  return
}

// -----

// linear_c3: no such symbol
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{expected @w to name a program.weight}}
  %y = gemma.linear %x, @w : tensor<?x64xf32> -> tensor<?x96xf32>
  return
}

// -----

// gelu_mul_c1
func.func @f(%x: tensor<3x64xf32>) {
  // expected-error @+1 {{expected a result of 3 rows, got 4}}
  %y = gemma.gelu_mul %x : tensor<3x64xf32> -> tensor<4x32xf32>
  return
}

// -----

// gelu_mul_c2
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{expected a result of 'f32', got 'f16'}}
  %y = gemma.gelu_mul %x : tensor<?x64xf32> -> tensor<?x32xf16>
  return
}

// -----

// gelu_mul_c3
func.func @f(%x: tensor<?x65xf32>) {
  // expected-error @+1 {{expected a result of half the 65 columns, got 32}}
  %y = gemma.gelu_mul %x : tensor<?x65xf32> -> tensor<?x32xf32>
  return
}

// -----

// silu_mul_c1
func.func @f(%x: tensor<3x64xf32>) {
  // expected-error @+1 {{expected a result of 3 rows, got 4}}
  %y = gemma.silu_mul %x : tensor<3x64xf32> -> tensor<4x32xf32>
  return
}

// -----

// silu_mul_c2
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{expected a result of 'f32', got 'f16'}}
  %y = gemma.silu_mul %x : tensor<?x64xf32> -> tensor<?x32xf16>
  return
}

// -----

// silu_mul_c3
func.func @f(%x: tensor<?x65xf32>) {
  // expected-error @+1 {{expected a result of half the 65 columns, got 32}}
  %y = gemma.silu_mul %x : tensor<?x65xf32> -> tensor<?x32xf32>
  return
}

// -----

// residual_c1
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{expected a finite r, got +Inf}}
  %y = gemma.residual %x, %x {r = 0x7FF0000000000000 : f64} : tensor<?x64xf32>
  return
}

// -----

// residual_c2
// expected-note @+1 {{the weight is here}}
program.weight @s : tensor<64xf32> from ["w"]
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{expected weight @s of shape [1], got 'tensor<64xf32>'}}
  %y = gemma.residual %x, %x scale @s : tensor<?x64xf32>
  return
}
