// Keys that are rope(rmsnorm(raw, w)) beside values rmsnorm_unit(raw) are not stored any more: the
// ops that made them go, the reader computes them. Whatever lacks a part of the proof stays.
// RUN: gemma-opt %s --split-input-file --gemma-share-kv | FileCheck %s

// CHECK: program.cache @c0 paged heads 1 dim 16 lanes [v] elem bf16
program.weight @k_norm : tensor<16xf32> from ["k"]
program.cache @c0 paged heads 1 dim 16 elem bf16 window 0 page 16
// CHECK-LABEL: func.func @step
// CHECK-NEXT:    %[[V:.*]] = gemma.rmsnorm_unit %[[RAW:.*]] {
// CHECK-NEXT:    %[[C:.*]] = gemma.cache_append %{{.*}}, %[[V]], %{{.*}} : <@c0>, tensor<?x1x16xf32>
// CHECK-NEXT:    gemma.gqa %{{.*}}, %[[C]], %{{.*}} {keys = #gemma.keys_of_values<norm = @k_norm, theta = 1.000000e+06 : f64, rot = 16, denom = 16, active = 2>, kv_heads = 1
func.func @step(%q: tensor<?x4x16xf32>, %raw: tensor<?x1x16xf32>, %c: !gemma.cache<@c0>, %batch: !gemma.batch) -> (tensor<?x4x16xf32>, !gemma.cache<@c0>) {
  %kn = gemma.rmsnorm %raw, @k_norm {eps = 1.0e-6 : f64} : tensor<?x1x16xf32>
  %v = gemma.rmsnorm_unit %raw {eps = 1.0e-6 : f64} : tensor<?x1x16xf32>
  %k = gemma.rope %kn, %batch {theta = 1.0e6 : f64, rot = 16 : i64, denom = 16 : i64, active = 2 : i64} : tensor<?x1x16xf32>
  %c1 = gemma.cache_append %c, %k, %v, %batch : !gemma.cache<@c0>, tensor<?x1x16xf32>
  %y = gemma.gqa %q, %c1, %batch {kv_heads = 1 : i64, scale = 1.0 : f64} : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return %y, %c1 : tensor<?x4x16xf32>, !gemma.cache<@c0>
}

// -----

// Somebody else reads the keys: they stay, though the cache does not store them.
// CHECK: program.cache @c0 paged heads 1 dim 16 lanes [v] elem bf16
program.weight @k_norm : tensor<16xf32> from ["k"]
program.cache @c0 paged heads 1 dim 16 elem bf16 window 0 page 16
// CHECK-LABEL: func.func @step
// CHECK:         %[[K:.*]] = gemma.rope
// CHECK:         gemma.cache_append %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} :
// CHECK:         return %[[K]]
func.func @step(%raw: tensor<?x1x16xf32>, %c: !gemma.cache<@c0>, %batch: !gemma.batch) -> (tensor<?x1x16xf32>, !gemma.cache<@c0>) {
  %kn = gemma.rmsnorm %raw, @k_norm {eps = 1.0e-6 : f64} : tensor<?x1x16xf32>
  %v = gemma.rmsnorm_unit %raw {eps = 1.0e-6 : f64} : tensor<?x1x16xf32>
  %k = gemma.rope %kn, %batch {theta = 1.0e6 : f64, rot = 16 : i64, denom = 16 : i64, active = 2 : i64} : tensor<?x1x16xf32>
  %c1 = gemma.cache_append %c, %k, %v, %batch : !gemma.cache<@c0>, tensor<?x1x16xf32>
  return %k, %c1 : tensor<?x1x16xf32>, !gemma.cache<@c0>
}

// -----

// Values of another projection.
// CHECK: program.cache @c0 paged heads 1 dim 16 lanes [k, v]
// CHECK: gemma.gqa {{.*}} {kv_heads
program.weight @k_norm : tensor<16xf32> from ["k"]
program.cache @c0 paged heads 1 dim 16 elem bf16 window 0 page 16
func.func @step(%q: tensor<?x4x16xf32>, %raw: tensor<?x1x16xf32>, %other: tensor<?x1x16xf32>, %c: !gemma.cache<@c0>, %batch: !gemma.batch) -> (tensor<?x4x16xf32>, !gemma.cache<@c0>) {
  %kn = gemma.rmsnorm %raw, @k_norm {eps = 1.0e-6 : f64} : tensor<?x1x16xf32>
  %v = gemma.rmsnorm_unit %other {eps = 1.0e-6 : f64} : tensor<?x1x16xf32>
  %k = gemma.rope %kn, %batch {theta = 1.0e6 : f64, rot = 16 : i64, denom = 16 : i64, active = 2 : i64} : tensor<?x1x16xf32>
  %c1 = gemma.cache_append %c, %k, %v, %batch : !gemma.cache<@c0>, tensor<?x1x16xf32>
  %y = gemma.gqa %q, %c1, %batch {kv_heads = 1 : i64, scale = 1.0 : f64} : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return %y, %c1 : tensor<?x4x16xf32>, !gemma.cache<@c0>
}

// -----

// Another eps: the two norms divide by different numbers.
// CHECK: program.cache @c0 paged heads 1 dim 16 lanes [k, v]
program.weight @k_norm : tensor<16xf32> from ["k"]
program.cache @c0 paged heads 1 dim 16 elem bf16 window 0 page 16
func.func @step(%raw: tensor<?x1x16xf32>, %c: !gemma.cache<@c0>, %batch: !gemma.batch) -> !gemma.cache<@c0> {
  %kn = gemma.rmsnorm %raw, @k_norm {eps = 1.0e-6 : f64} : tensor<?x1x16xf32>
  %v = gemma.rmsnorm_unit %raw {eps = 1.0e-5 : f64} : tensor<?x1x16xf32>
  %k = gemma.rope %kn, %batch {theta = 1.0e6 : f64, rot = 16 : i64, denom = 16 : i64, active = 2 : i64} : tensor<?x1x16xf32>
  %c1 = gemma.cache_append %c, %k, %v, %batch : !gemma.cache<@c0>, tensor<?x1x16xf32>
  return %c1 : !gemma.cache<@c0>
}

// -----

// Angles of another batch's positions.
// CHECK: program.cache @c0 paged heads 1 dim 16 lanes [k, v]
program.weight @k_norm : tensor<16xf32> from ["k"]
program.cache @c0 paged heads 1 dim 16 elem bf16 window 0 page 16
func.func @step(%raw: tensor<?x1x16xf32>, %c: !gemma.cache<@c0>, %batch: !gemma.batch, %other: !gemma.batch) -> !gemma.cache<@c0> {
  %kn = gemma.rmsnorm %raw, @k_norm {eps = 1.0e-6 : f64} : tensor<?x1x16xf32>
  %v = gemma.rmsnorm_unit %raw {eps = 1.0e-6 : f64} : tensor<?x1x16xf32>
  %k = gemma.rope %kn, %other {theta = 1.0e6 : f64, rot = 16 : i64, denom = 16 : i64, active = 2 : i64} : tensor<?x1x16xf32>
  %c1 = gemma.cache_append %c, %k, %v, %batch : !gemma.cache<@c0>, tensor<?x1x16xf32>
  return %c1 : !gemma.cache<@c0>
}

// -----

// A norm with an offset multiplies by 1 + w; a key with no norm at all by nothing.
// CHECK: program.cache @c0 paged heads 1 dim 16 lanes [k, v]
// CHECK: program.cache @c1 paged heads 1 dim 16 lanes [k, v]
program.weight @k_norm : tensor<16xf32> from ["k"]
program.cache @c0 paged heads 1 dim 16 elem bf16 window 0 page 16
program.cache @c1 paged heads 1 dim 16 elem bf16 window 0 page 16
func.func @step(%raw: tensor<?x1x16xf32>, %c: !gemma.cache<@c0>, %d: !gemma.cache<@c1>, %batch: !gemma.batch) -> (!gemma.cache<@c0>, !gemma.cache<@c1>) {
  %kn = gemma.rmsnorm_offset %raw, @k_norm {eps = 1.0e-6 : f64} : tensor<?x1x16xf32>
  %v = gemma.rmsnorm_unit %raw {eps = 1.0e-6 : f64} : tensor<?x1x16xf32>
  %k = gemma.rope %kn, %batch {theta = 1.0e6 : f64, rot = 16 : i64, denom = 16 : i64, active = 2 : i64} : tensor<?x1x16xf32>
  %c1 = gemma.cache_append %c, %k, %v, %batch : !gemma.cache<@c0>, tensor<?x1x16xf32>
  %raw_k = gemma.rope %raw, %batch {theta = 1.0e6 : f64, rot = 16 : i64, denom = 16 : i64, active = 2 : i64} : tensor<?x1x16xf32>
  %d1 = gemma.cache_append %d, %raw_k, %v, %batch : !gemma.cache<@c1>, tensor<?x1x16xf32>
  return %c1, %d1 : !gemma.cache<@c0>, !gemma.cache<@c1>
}

// -----

// Two appends to one cache that prove different things.
// CHECK: program.cache @c0 paged heads 1 dim 16 lanes [k, v]
program.weight @k_norm : tensor<16xf32> from ["k"]
program.weight @other_norm : tensor<16xf32> from ["o"]
program.cache @c0 paged heads 1 dim 16 elem bf16 window 0 page 16
func.func @step(%raw: tensor<?x1x16xf32>, %c: !gemma.cache<@c0>, %batch: !gemma.batch) -> !gemma.cache<@c0> {
  %v = gemma.rmsnorm_unit %raw {eps = 1.0e-6 : f64} : tensor<?x1x16xf32>
  %kn = gemma.rmsnorm %raw, @k_norm {eps = 1.0e-6 : f64} : tensor<?x1x16xf32>
  %k = gemma.rope %kn, %batch {theta = 1.0e6 : f64, rot = 16 : i64, denom = 16 : i64, active = 2 : i64} : tensor<?x1x16xf32>
  %c1 = gemma.cache_append %c, %k, %v, %batch : !gemma.cache<@c0>, tensor<?x1x16xf32>
  %on = gemma.rmsnorm %raw, @other_norm {eps = 1.0e-6 : f64} : tensor<?x1x16xf32>
  %o = gemma.rope %on, %batch {theta = 1.0e6 : f64, rot = 16 : i64, denom = 16 : i64, active = 2 : i64} : tensor<?x1x16xf32>
  %c2 = gemma.cache_append %c1, %o, %v, %batch : !gemma.cache<@c0>, tensor<?x1x16xf32>
  return %c2 : !gemma.cache<@c0>
}
