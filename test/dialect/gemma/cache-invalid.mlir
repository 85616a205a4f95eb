// RUN: gemma-opt %s --split-input-file --verify-diagnostics

// cache_append_c1: each of the two is told
program.cache @c0 ring heads 2 dim 16 elem f32 window 8 page 16
func.func @f(%k: tensor<?x2x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{consumes a version that is consumed elsewhere}}
  %0 = gemma.cache_append %cache, %k, %k, %batch : !gemma.cache<@c0>, tensor<?x2x16xf32>
  // expected-note @+1 {{consumed here}}
  %1 = gemma.cache_append %cache, %k, %k, %batch : !gemma.cache<@c0>, tensor<?x2x16xf32>
  return
}

// -----

// cache_append_c1: also inside a group
program.cache @c0 ring heads 2 dim 16 elem f32 window 8 page 16
func.func @f(%k: tensor<?x2x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{consumes a version that is consumed elsewhere}}
  %0 = gemma.cache_append %cache, %k, %k, %batch : !gemma.cache<@c0>, tensor<?x2x16xf32>
  %1 = gemma.group -> !gemma.cache<@c0> {
    // expected-note @+1 {{consumed here}}
    %2 = gemma.cache_append %cache, %k, %k, %batch : !gemma.cache<@c0>, tensor<?x2x16xf32>
    gemma.yield %2 : !gemma.cache<@c0>
  }
  return
}

// -----

// cache_append_c2: dimension
// expected-note @+1 {{the cache is here}}
program.cache @c0 ring heads 2 dim 32 elem f32 window 8 page 16
func.func @f(%k: tensor<?x2x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected cache @c0 with 2 heads of 16, got 2 of 32}}
  %0 = gemma.cache_append %cache, %k, %k, %batch : !gemma.cache<@c0>, tensor<?x2x16xf32>
  return
}

// -----

// cache_append_c2: no such cache
func.func @f(%k: tensor<?x2x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected @c0 to name a program.cache}}
  %0 = gemma.cache_append %cache, %k, %k, %batch : !gemma.cache<@c0>, tensor<?x2x16xf32>
  return
}

// -----

// cache_append_c3: keys for a cache of values alone
// expected-note @+1 {{the cache is here}}
program.cache @c0 paged heads 2 dim 16 lanes [v] elem f32 window 0 page 16
func.func @f(%k: tensor<?x2x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected values alone, as the cache stores}}
  %0 = gemma.cache_append %cache, %k, %k, %batch : !gemma.cache<@c0>, tensor<?x2x16xf32>
  return
}

// -----

// cache_append_c3: no keys for a cache that stores them
// expected-note @+1 {{the cache is here}}
program.cache @c0 ring heads 2 dim 16 elem f32 window 8 page 16
func.func @f(%v: tensor<?x2x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected keys beside the values}}
  %0 = gemma.cache_append %cache, %v, %batch : !gemma.cache<@c0>, tensor<?x2x16xf32>
  return
}

// -----

// cache_append_c4
program.cache @c0 ring heads 2 dim 16 elem f32 window 8 page 16
func.func @f(%k: tensor<?x2x16xf64>, %v: tensor<?x2x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected keys of the values' type 'tensor<?x2x16xf32>', got 'tensor<?x2x16xf64>'}}
  %0 = "gemma.cache_append"(%cache, %k, %v, %batch) : (!gemma.cache<@c0>, tensor<?x2x16xf64>, tensor<?x2x16xf32>, !gemma.batch) -> !gemma.cache<@c0>
  return
}
