// One sliding layer without its head norms' neighbours: enough to see every kind of group.
#always = affine_set<()[T, B, Q, S, R] : (0 == 0)>
module attributes {gemma.numerics = #gemma.numerics<weights = bf16, activations = f32, accumulate = f32, residual = f32, kv = bf16, logits = f32>} {
program.weight @norm : tensor<32xf32> from ["n"]
program.weight @head_norm : tensor<8xf32> from ["h"]
program.weight @qkv : tensor<32x32xbf16> from ["q", "k", "v"]
program.weight @o : tensor<32x16xbf16> from ["o"]
program.weight @gate_up : tensor<96x32xbf16> from ["g", "u"]
program.weight @down : tensor<32x48xbf16> from ["d"]
program.weight @table : tensor<64x32xbf16> from ["e"]
program.cache @c0 ring heads 1 dim 8 elem bf16 window 16 page 16
func.func @step(%tokens: tensor<?xi32>, %batch: !gemma.batch, %rows: tensor<?xi32>, %c: !gemma.cache<@c0>) -> (tensor<?x64xf32>, !gemma.cache<@c0>) {
  %zero = arith.constant 0 : index
  %x = gemma.embed %tokens, @table {mul = 2.0 : f64} : tensor<?xi32> -> tensor<?x32xf32>
  %T = tensor.dim %x, %zero : tensor<?x32xf32>
  %n = gemma.rmsnorm %x, @norm {eps = 1.0e-6 : f64} : tensor<?x32xf32>
  %p = gemma.linear %n, @qkv : tensor<?x32xf32> -> tensor<?x32xf32>
  %q0 = tensor.extract_slice %p[0, 0] [%T, 16] [1, 1] : tensor<?x32xf32> to tensor<?x16xf32>
  %q1 = tensor.expand_shape %q0 [[0], [1, 2]] output_shape [%T, 2, 8] : tensor<?x16xf32> into tensor<?x2x8xf32>
  %k0 = tensor.extract_slice %p[0, 16] [%T, 8] [1, 1] : tensor<?x32xf32> to tensor<?x8xf32>
  %k1 = tensor.expand_shape %k0 [[0], [1, 2]] output_shape [%T, 1, 8] : tensor<?x8xf32> into tensor<?x1x8xf32>
  %v0 = tensor.extract_slice %p[0, 24] [%T, 8] [1, 1] : tensor<?x32xf32> to tensor<?x8xf32>
  %v1 = tensor.expand_shape %v0 [[0], [1, 2]] output_shape [%T, 1, 8] : tensor<?x8xf32> into tensor<?x1x8xf32>
  %qn = gemma.rmsnorm %q1, @head_norm {eps = 1.0e-6 : f64} : tensor<?x2x8xf32>
  %vn = gemma.rmsnorm_unit %v1 {eps = 1.0e-6 : f64} : tensor<?x1x8xf32>
  %qr = gemma.rope %qn, %batch {theta = 1.0e4 : f64, rot = 8 : i64, denom = 8 : i64, active = 4 : i64} : tensor<?x2x8xf32>
  %c1 = gemma.cache_append %c, %k1, %vn, %batch : !gemma.cache<@c0>, tensor<?x1x8xf32>
  %a = gemma.gqa %qr, %c1, %batch {kv_heads = 1 : i64, scale = 1.0 : f64, window = 16 : i64} : tensor<?x2x8xf32>, !gemma.cache<@c0>
  %a1 = tensor.collapse_shape %a [[0], [1, 2]] : tensor<?x2x8xf32> into tensor<?x16xf32>
  %o = gemma.linear %a1, @o : tensor<?x16xf32> -> tensor<?x32xf32>
  %x1 = gemma.residual %x, %o : tensor<?x32xf32>
  %n1 = gemma.rmsnorm %x1, @norm {eps = 1.0e-6 : f64} : tensor<?x32xf32>
  %gu = gemma.linear %n1, @gate_up : tensor<?x32xf32> -> tensor<?x96xf32>
  %act = gemma.gelu_mul %gu : tensor<?x96xf32> -> tensor<?x48xf32>
  %d = gemma.linear %act, @down : tensor<?x48xf32> -> tensor<?x32xf32>
  %x2 = gemma.residual %x1, %d : tensor<?x32xf32>
  %s = gemma.select_rows %x2, %rows : tensor<?x32xf32>, tensor<?xi32> -> tensor<?x32xf32>
  %f = gemma.rmsnorm %s, @norm {eps = 1.0e-6 : f64} : tensor<?x32xf32>
  %l = gemma.lm_head %f, @table {mul = 1.0 : f64, softcap = 3.0e1 : f64} : tensor<?x32xf32> -> tensor<?x64xf32>
  return %l, %c1 : tensor<?x64xf32>, !gemma.cache<@c0>
}
}
