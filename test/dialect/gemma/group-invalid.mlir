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
module attributes {gemma.numerics = #gemma.numerics<weights = i8, activations = f32,
    accumulate = f32, residual = f32, kv = bf16, logits = f32>} {
}
