// RUN: gemma-opt %s --split-input-file --verify-diagnostics

// rmsnorm_c1
program.weight @norm : tensor<96xf32> from ["w"]
func.func @f(%x: tensor<?x96xf32>) {
  // expected-error @+1 {{expected a positive finite eps, got 0}}
  %y = gemma.rmsnorm %x, @norm {eps = 0.0 : f64} : tensor<?x96xf32>
  return
}

// -----

// rmsnorm_c2
// expected-note @+1 {{the weight is here}}
program.weight @norm : tensor<96xf32> from ["w"]
func.func @f(%x: tensor<?x4x16xf32>) {
  // expected-error @+1 {{expected weight @norm of shape [16], got 'tensor<96xf32>'}}
  %y = gemma.rmsnorm %x, @norm {eps = 1.0e-6 : f64} : tensor<?x4x16xf32>
  return
}

// -----

// rmsnorm_offset_c1
program.weight @norm : tensor<96xf32> from ["w"]
func.func @f(%x: tensor<?x96xf32>) {
  // expected-error @+1 {{expected a positive finite eps, got -1}}
  %y = gemma.rmsnorm_offset %x, @norm {eps = -1.0 : f64} : tensor<?x96xf32>
  return
}

// -----

// rmsnorm_offset_c2
// expected-note @+1 {{the weight is here}}
program.weight @norm : tensor<96xf32> from ["w"]
func.func @f(%x: tensor<?x4x16xf32>) {
  // expected-error @+1 {{expected weight @norm of shape [16], got 'tensor<96xf32>'}}
  %y = gemma.rmsnorm_offset %x, @norm {eps = 1.0e-6 : f64} : tensor<?x4x16xf32>
  return
}

// -----

// rmsnorm_unit_c1
func.func @f(%x: tensor<?x96xf32>) {
  // expected-error @+1 {{expected a positive finite eps, got +Inf}}
  %y = gemma.rmsnorm_unit %x {eps = 0x7FF0000000000000 : f64} : tensor<?x96xf32>
  return
}

// -----

// l2norm_c1
func.func @f(%x: tensor<?x96xf32>) {
  // expected-error @+1 {{expected a positive finite eps, got NaN}}
  %y = gemma.l2norm %x {eps = 0x7FF8000000000000 : f64} : tensor<?x96xf32>
  return
}

// -----

// rmsnorm_gated_c1
program.weight @norm : tensor<96xf32> from ["w"]
func.func @f(%x: tensor<?x96xf32>) {
  // expected-error @+1 {{expected a positive finite eps, got 0}}
  %y = gemma.rmsnorm_gated %x, %x, @norm {eps = 0.0 : f64} : tensor<?x96xf32>
  return
}

// -----

// rmsnorm_gated_c2
// expected-note @+1 {{the weight is here}}
program.weight @norm : tensor<96xf32> from ["w"]
func.func @f(%x: tensor<?x4x16xf32>) {
  // expected-error @+1 {{expected weight @norm of shape [16], got 'tensor<96xf32>'}}
  %y = gemma.rmsnorm_gated %x, %x, @norm {eps = 1.0e-6 : f64} : tensor<?x4x16xf32>
  return
}
