// RUN: gemma-opt %s --verify-roundtrip

// Linear maps, both gated activations, and residuals with and without a layer scalar.
program.weight @o_proj : tensor<96x64xbf16> from ["o_proj.weight"]
program.weight @layer_scalar : tensor<1xf32> from ["layer_scalar"]

func.func @feed_forward(%x: tensor<?x96xf32>, %a: tensor<?x64xf32>, %gate_up: tensor<?x256xf32>) {
  %h = gemma.linear %a, @o_proj : tensor<?x64xf32> -> tensor<?x96xf32>
  %0 = gemma.gelu_mul %gate_up : tensor<?x256xf32> -> tensor<?x128xf32>
  %1 = gemma.silu_mul %gate_up : tensor<?x256xf32> -> tensor<?x128xf32>
  %2 = gemma.residual %x, %h : tensor<?x96xf32>
  %3 = gemma.residual %x, %h scale @layer_scalar : tensor<?x96xf32>
  %4 = gemma.residual %x, %h {r = 0.5 : f64} : tensor<?x96xf32>
  return
}
