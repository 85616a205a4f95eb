// RUN: gemma-opt %s --split-input-file --verify-diagnostics

// gqa_c1
program.cache @c0 ring heads 2 dim 16 elem f32 window 8 page 16
func.func @f(%q: tensor<?x4x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected kv_heads to divide 4 heads, got 3}}
  %y = gemma.gqa %q, %cache, %batch {kv_heads = 3 : i64, scale = 1.0 : f64, window = 8 : i64} : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return
}

// -----

// gqa_c2
program.cache @c0 ring heads 2 dim 16 elem f32 window 8 page 16
func.func @f(%q: tensor<?x4x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected a finite scale, got NaN}}
  %y = gemma.gqa %q, %cache, %batch {kv_heads = 2 : i64, scale = 0x7FF8000000000000 : f64, window = 8 : i64} : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return
}

// -----

// gqa_c3
program.cache @c0 ring heads 2 dim 16 elem f32 window 8 page 16
func.func @f(%q: tensor<?x4x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected window >= 1, got 0}}
  %y = gemma.gqa %q, %cache, %batch {kv_heads = 2 : i64, scale = 1.0 : f64, window = 0 : i64} : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return
}

// -----

// gqa_c5
// expected-note @+1 {{the cache is here}}
program.cache @c0 ring heads 2 dim 16 elem f32 window 8 page 16
func.func @f(%q: tensor<?x4x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected cache @c0 with 1 heads of 16, got 2 of 16}}
  %y = gemma.gqa %q, %cache, %batch {kv_heads = 1 : i64, scale = 1.0 : f64, window = 8 : i64} : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return
}

// -----

// gqa_c6
// expected-note @+1 {{the cache is here}}
program.cache @c0 ring heads 2 dim 16 elem f32 window 8 page 16
func.func @f(%q: tensor<?x4x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected the cache's window 8, got 9}}
  %y = gemma.gqa %q, %cache, %batch {kv_heads = 2 : i64, scale = 1.0 : f64, window = 9 : i64} : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return
}

// -----

// gqa_c6: absent
// expected-note @+1 {{the cache is here}}
program.cache @c0 ring heads 2 dim 16 elem f32 window 8 page 16
func.func @f(%q: tensor<?x4x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected the cache's window 8, got 0}}
  %y = gemma.gqa %q, %cache, %batch {kv_heads = 2 : i64, scale = 1.0 : f64} : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return
}

// -----

// gqa_c4: the old version is read, even before the append
program.cache @c0 ring heads 2 dim 16 elem f32 window 8 page 16
func.func @f(%q: tensor<?x4x16xf32>, %k: tensor<?x2x16xf32>, %cache: !gemma.cache<@c0>,
             %batch: !gemma.batch) {
  // expected-error @+1 {{reads a version of the cache that is consumed}}
  %y = gemma.gqa %q, %cache, %batch {kv_heads = 2 : i64, scale = 1.0 : f64, window = 8 : i64}
    : tensor<?x4x16xf32>, !gemma.cache<@c0>
  // expected-note @+1 {{consumed here}}
  %new = gemma.cache_append %cache, %k, %k, %batch : !gemma.cache<@c0>, tensor<?x2x16xf32>
  return
}

// -----

// gqa_c5: no such cache
func.func @f(%q: tensor<?x4x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected @c0 to name a program.cache}}
  %y = gemma.gqa %q, %cache, %batch {kv_heads = 2 : i64, scale = 1.0 : f64}
    : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return
}

// -----

// gqa_c7: none
program.weight @k : tensor<16xf32> from ["k"]
// expected-note @+1 {{the cache is here}}
program.cache @c0 paged heads 1 dim 16 lanes [v] elem f32 window 0 page 16
func.func @f(%q: tensor<?x4x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected keys for a cache of values alone}}
  %y = gemma.gqa %q, %cache, %batch {kv_heads = 1 : i64, scale = 1.0 : f64} : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return
}

// -----

// gqa_c7: stored
program.weight @k : tensor<16xf32> from ["k"]
// expected-note @+1 {{the cache is here}}
program.cache @c0 paged heads 1 dim 16 elem f32 window 0 page 16
func.func @f(%q: tensor<?x4x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected no keys for a cache that stores them}}
  %y = gemma.gqa %q, %cache, %batch {kv_heads = 1 : i64, scale = 1.0 : f64, keys = #gemma.keys_of_values<norm = @k, theta = 1.0e6 : f64, rot = 16, denom = 16, active = 2>} : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return
}

// -----

// gqa_c8: rot
program.weight @k : tensor<16xf32> from ["k"]
program.cache @c0 paged heads 1 dim 16 lanes [v] elem f32 window 0 page 16
func.func @f(%q: tensor<?x4x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected keys that rotate at most 16 coordinates, got 18}}
  %y = gemma.gqa %q, %cache, %batch {kv_heads = 1 : i64, scale = 1.0 : f64, keys = #gemma.keys_of_values<norm = @k, theta = 1.0e6 : f64, rot = 18, denom = 16, active = 2>} : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return
}

// -----

// gqa_c8: weight
// expected-note @+1 {{the weight is here}}
program.weight @k : tensor<8xf32> from ["k"]
program.cache @c0 paged heads 1 dim 16 lanes [v] elem f32 window 0 page 16
func.func @f(%q: tensor<?x4x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected weight @k of shape [16], got 'tensor<8xf32>'}}
  %y = gemma.gqa %q, %cache, %batch {kv_heads = 1 : i64, scale = 1.0 : f64, keys = #gemma.keys_of_values<norm = @k, theta = 1.0e6 : f64, rot = 16, denom = 16, active = 2>} : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return
}

// -----

// keys_of_values_c1: sign
program.weight @k : tensor<16xf32> from ["k"]
program.cache @c0 paged heads 1 dim 16 lanes [v] elem f32 window 0 page 16
func.func @f(%q: tensor<?x4x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected a positive finite f64 theta, got -1.000000e+00 : f64}}
  %y = gemma.gqa %q, %cache, %batch {kv_heads = 1 : i64, scale = 1.0 : f64, keys = #gemma.keys_of_values<norm = @k, theta = -1.0 : f64, rot = 16, denom = 16, active = 2>} : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return
}

// -----

// keys_of_values_c1: type
program.weight @k : tensor<16xf32> from ["k"]
program.cache @c0 paged heads 1 dim 16 lanes [v] elem f32 window 0 page 16
func.func @f(%q: tensor<?x4x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected a positive finite f64 theta, got 1.000000e+00 : f32}}
  %y = gemma.gqa %q, %cache, %batch {kv_heads = 1 : i64, scale = 1.0 : f64, keys = #gemma.keys_of_values<norm = @k, theta = 1.0 : f32, rot = 16, denom = 16, active = 2>} : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return
}

// -----

// keys_of_values_c2
program.weight @k : tensor<16xf32> from ["k"]
program.cache @c0 paged heads 1 dim 16 lanes [v] elem f32 window 0 page 16
func.func @f(%q: tensor<?x4x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected an even rot >= 2, denom >= 1 and active in [1, rot / 2], got 16, 16 and 9}}
  %y = gemma.gqa %q, %cache, %batch {kv_heads = 1 : i64, scale = 1.0 : f64, keys = #gemma.keys_of_values<norm = @k, theta = 1.0e6 : f64, rot = 16, denom = 16, active = 9>} : tensor<?x4x16xf32>, !gemma.cache<@c0>
  return
}
