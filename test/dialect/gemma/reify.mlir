// RUN: gemma-opt %s --resolve-ranked-shaped-type-result-dims --canonicalize --cse | FileCheck %s

// Rows of a node are those of its first operand, down to the tokens; behind select_rows they are
// the selected ones.
program.weight @embed : tensor<512x96xf32> from ["w"]
program.weight @qkv : tensor<64x96xf32> from ["w"]
program.weight @norm : tensor<96xf32> from ["w"]
program.cache @c0 ring heads 2 dim 16 elem f32 window 8 page 16

// CHECK-LABEL: @tokens(
// CHECK-SAME: %[[TOKENS:[a-z0-9]*]]: tensor<?xi32>
// CHECK: %[[T:.*]] = tensor.dim %[[TOKENS]], %c0
// CHECK: return %[[T]], %[[T]]
func.func @tokens(%tokens: tensor<?xi32>) -> (index, index) {
  %c0 = arith.constant 0 : index
  %x = gemma.embed %tokens, @embed {mul = 1.0 : f64} : tensor<?xi32> -> tensor<?x96xf32>
  %n = gemma.rmsnorm %x, @norm {eps = 1.0e-6 : f64} : tensor<?x96xf32>
  %r = gemma.residual %n, %x : tensor<?x96xf32>
  %p = gemma.linear %r, @qkv : tensor<?x96xf32> -> tensor<?x64xf32>
  %act = gemma.gelu_mul %p : tensor<?x64xf32> -> tensor<?x32xf32>
  %d0 = tensor.dim %act, %c0 : tensor<?x32xf32>
  %d1 = tensor.dim %r, %c0 : tensor<?x96xf32>
  return %d0, %d1 : index, index
}

// CHECK-LABEL: @rows(
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<?x96xf32>, %[[ROWS:[a-z0-9]*]]: tensor<?xi32>
// CHECK-DAG: %[[K:.*]] = arith.constant 4 : index
// CHECK-DAG: %[[R:.*]] = tensor.dim %[[ROWS]], %c0
// CHECK: return %[[R]], %[[R]], %[[K]]
func.func @rows(%x: tensor<?x96xf32>, %rows: tensor<?xi32>) -> (index, index, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %y = gemma.select_rows %x, %rows : tensor<?x96xf32>, tensor<?xi32> -> tensor<?x96xf32>
  %z = gemma.lm_head %y, @embed : tensor<?x96xf32> -> tensor<?x512xf32>
  %v, %i = gemma.top_k %z {k = 4 : i64} : tensor<?x512xf32> -> tensor<?x4xf32>, tensor<?x4xi32>
  %d0 = tensor.dim %z, %c0 : tensor<?x512xf32>
  %d1 = tensor.dim %v, %c0 : tensor<?x4xf32>
  %d2 = tensor.dim %i, %c1 : tensor<?x4xi32>
  return %d0, %d1, %d2 : index, index, index
}

// CHECK-LABEL: @heads(
// CHECK-SAME: %[[Q:[a-z0-9]*]]: tensor<?x4x16xf32>
// CHECK: %[[T:.*]] = tensor.dim %[[Q]], %c0
// CHECK: return %[[T]]
func.func @heads(%q: tensor<?x4x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) -> index {
  %c0 = arith.constant 0 : index
  %v = gemma.rmsnorm_unit %q {eps = 1.0e-6 : f64} : tensor<?x4x16xf32>
  %r = gemma.rope_std %v, %batch {theta = 1.0e4 : f64, rot = 16 : i64} : tensor<?x4x16xf32>
  %a = gemma.gqa %r, %cache, %batch {kv_heads = 2 : i64, scale = 1.0 : f64, window = 8 : i64}
    : tensor<?x4x16xf32>, !gemma.cache<@c0>
  %d = tensor.dim %a, %c0 : tensor<?x4x16xf32>
  return %d : index
}
