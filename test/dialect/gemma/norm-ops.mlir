// RUN: gemma-opt %s --verify-roundtrip

// Every norm, of rows and per head, in each element type.
program.weight @norm : tensor<96xf32> from ["norm.weight"]
program.weight @head_norm : tensor<16xf32> from ["q_norm.weight"]

func.func @rows(%x: tensor<?x96xf32>, %z: tensor<?x96xf32>) {
  %0 = gemma.rmsnorm %x, @norm {eps = 1.0e-6 : f64} : tensor<?x96xf32>
  %1 = gemma.rmsnorm_offset %x, @norm {eps = 1.0e-6 : f64} : tensor<?x96xf32>
  %2 = gemma.rmsnorm_unit %x {eps = 1.0e-6 : f64} : tensor<?x96xf32>
  %3 = gemma.l2norm %x {eps = 1.0e-6 : f64} : tensor<?x96xf32>
  %4 = gemma.rmsnorm_gated %x, %z, @norm {eps = 1.0e-6 : f64} : tensor<?x96xf32>
  return
}

func.func @heads(%q: tensor<?x4x16xbf16>, %v: tensor<?x2x16xf32>, %w: tensor<5x2x16xf64>, %h: tensor<?x2x16xf16>) {
  %0 = gemma.rmsnorm %q, @head_norm {eps = 1.0e-6 : f64} : tensor<?x4x16xbf16>
  %1 = gemma.rmsnorm_unit %w {eps = 1.0e-6 : f64} : tensor<5x2x16xf64>
  %3 = gemma.rmsnorm_unit %v {eps = 1.0e-6 : f64} : tensor<?x2x16xf32>
  %2 = gemma.l2norm %h {eps = 1.0e-6 : f64} : tensor<?x2x16xf16>
  return
}
