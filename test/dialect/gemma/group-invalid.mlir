// RUN: gemma-opt %s --split-input-file --verify-diagnostics

// group_c1
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{expected to yield ('tensor<?x64xf32>'), got ('tensor<?x64xf32>', 'tensor<?x64xf32>')}}
  %y = gemma.group -> tensor<?x64xf32> {
    gemma.yield %x, %x : tensor<?x64xf32>, tensor<?x64xf32>
  }
  return
}

// -----

// group_c2
func.func @f() {
  gemma.group {
    // expected-error @+1 {{expected to be in no other group}}
    gemma.group {
    }
  }
  return
}

// -----

// numerics_c1
// expected-error @+1 {{expected f64, f32, bf16 or f16, got 'i8'}}
module attributes {gemma.numerics = #gemma.numerics<weights = bf16, activations = i8,
    accumulate = f32, residual = f32, kv = bf16, logits = f32>} {
}

// -----

// numerics_c1: weights
// expected-error @+1 {{expected weights of f64, f32, bf16, f16, i8 or i4, got 'i16'}}
module attributes {gemma.numerics = #gemma.numerics<weights = i16, activations = f32,
    accumulate = f32, residual = f32, kv = bf16, logits = f32, codes = i8>} {
}

// -----

// numerics_c1: caches
// expected-error @+1 {{expected kv of f64, f32, bf16, f16 or i8, got 'i16'}}
module attributes {gemma.numerics = #gemma.numerics<weights = bf16, activations = f32,
                   accumulate = f32, residual = f32, kv = i16, logits = f32>} {
}

// -----

// numerics_c3
// expected-error @+1 {{expected kv of i8 to be accumulated in f32, got 'f64'}}
module attributes {gemma.numerics = #gemma.numerics<weights = f64, activations = f64,
                   accumulate = f64, residual = f64, kv = i8, logits = f64>} {
}

// -----

// numerics_c2
// expected-error @+1 {{expected codes of i8 or i16, got 'i32'}}
module attributes {gemma.numerics = #gemma.numerics<weights = i8, activations = f32,
    accumulate = f32, residual = f32, kv = bf16, logits = f32, codes = i32>} {
}

// -----

// numerics_c2: integer weights alone
// expected-error @+1 {{expected codes beside integer weights}}
module attributes {gemma.numerics = #gemma.numerics<weights = bf16, activations = f32,
    accumulate = f32, residual = f32, kv = bf16, logits = f32, embedding = i8>} {
}

// -----

// numerics_c2: codes alone
// expected-error @+1 {{expected no codes without integer weights}}
module attributes {gemma.numerics = #gemma.numerics<weights = bf16, activations = f32,
    accumulate = f32, residual = f32, kv = bf16, logits = f32, codes = i8>} {
}

// -----

// numerics_c2: f64
// expected-error @+1 {{expected integer weights to be accumulated in f32, got 'f64'}}
module attributes {gemma.numerics = #gemma.numerics<weights = i4, activations = f64,
    accumulate = f64, residual = f64, kv = f64, logits = f64, codes = i16>} {
}
