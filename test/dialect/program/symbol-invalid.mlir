// RUN: gemma-opt %s --split-input-file --verify-diagnostics

// layout_c1
// expected-error @+1 {{expected panel 0, 8 or 16, got 4}}
program.weight @w : tensor<96x64xf32> from ["w"] layout <panel = 4, kpack = 1, interleave = 1>

// -----

// layout_c2
// expected-error @+1 {{expected kpack 1, 2 or 4 with panel 16, got 3}}
program.weight @w : tensor<96x64xf32> from ["w"] layout <panel = 16, kpack = 3, interleave = 1>

// -----

// layout_c2: tensor cores
// expected-error @+1 {{expected kpack 64 with panel 8, got 2}}
program.weight @w : tensor<96x64xf32> from ["w"] layout <panel = 8, kpack = 2, interleave = 1>

// -----

// layout_c2: without panels
// expected-error @+1 {{expected kpack 1 with panel 0, got 2}}
program.weight @w : tensor<96x64xf32> from ["w"] layout <panel = 0, kpack = 2, interleave = 1>

// -----

// layout_c3
// expected-error @+1 {{expected interleave 1 or 2, got 3}}
program.weight @w : tensor<96x64xf32> from ["w"] layout <panel = 16, kpack = 1, interleave = 3>

// -----

// layout_c3: without panels
// expected-error @+1 {{expected interleave 1, got 2}}
program.weight @w : tensor<96x64xf32> from ["w"] layout <panel = 0, kpack = 1, interleave = 2>

// -----

// weight_c1: rank
// expected-error @+1 {{expected a [N] or [N, K] tensor of floats, or a [N, K] one of i8 or i4, with static sizes, got 'tensor<2x96x64xf32>'}}
program.weight @w : tensor<2x96x64xf32> from ["w"]

// -----

// weight_c1: size
// expected-error @+1 {{expected a [N] or [N, K] tensor of floats, or a [N, K] one of i8 or i4, with static sizes, got 'tensor<0xf32>'}}
program.weight @w : tensor<0xf32> from ["w"]

// -----

// weight_c1: a vector of integers
// expected-error @+1 {{expected a [N] or [N, K] tensor of floats, or a [N, K] one of i8 or i4, with static sizes, got 'tensor<96xi8>'}}
program.weight @w : tensor<96xi8> from ["w"]

// -----

// weight_c3: floats in groups
// expected-error @+1 {{expected a layout that fits 'tensor<96x64xf32>'}}
program.weight @w : tensor<96x64xf32> from ["w"] layout <panel = 16, kpack = 4, interleave = 1>

// -----

// weight_c3: integers without groups
// expected-error @+1 {{expected a layout that fits 'tensor<96x64xi4>'}}
program.weight @w : tensor<96x64xi4> from ["w"] layout <panel = 16, kpack = 2, interleave = 1>

// -----

// weight_c1: dynamic
// expected-error @+1 {{expected a [N] or [N, K] tensor of floats, or a [N, K] one of i8 or i4, with static sizes, got 'tensor<?x64xf32>'}}
program.weight @w : tensor<?x64xf32> from ["w"]

// -----

// weight_c1: element
// expected-error @+1 {{expected a [N] or [N, K] tensor of floats, or a [N, K] one of i8 or i4, with static sizes, got 'tensor<96x64xi16>'}}
program.weight @w : tensor<96x64xi16> from ["w"]

// -----

// weight_c2
// expected-error @+1 {{expected names of source tensors, got []}}
program.weight @w : tensor<96x64xf32> from []

// -----

// weight_c2: empty
// expected-error @+1 {{expected names of source tensors, got ["w", ""]}}
program.weight @w : tensor<96x64xf32> from ["w", ""]

// -----

// weight_c3: a vector
// expected-error @+1 {{expected a layout that fits 'tensor<96xf32>', got #program.layout<panel = 16, kpack = 1, interleave = 1>}}
program.weight @w : tensor<96xf32> from ["w"] layout <panel = 16, kpack = 1, interleave = 1>

// -----

// weight_c3: odd rows
// expected-error @+1 {{expected a layout that fits 'tensor<97x64xf32>'}}
program.weight @w : tensor<97x64xf32> from ["w"] layout <panel = 16, kpack = 1, interleave = 2>

// -----

// weight_c4: no layout
// expected-error @+1 {{expected a layout beside the packed type 'memref<96x64xf32>'}}
program.weight @w : tensor<96x64xf32> from ["w"] packed memref<96x64xf32>

// -----

// weight_c4: halves not padded
// expected-error @+1 {{expected the packed type 'memref<6x32x16x2xbf16>', got 'memref<5x32x16x2xbf16>'}}
program.weight @w : tensor<72x64xbf16> from ["w"] layout <panel = 16, kpack = 2, interleave = 2> packed memref<5x32x16x2xbf16>

// -----

// cache_c1
// expected-error @+1 {{expected positive heads, dim and page, got 0, 16 and 16}}
program.cache @c ring heads 0 dim 16 elem f32 window 8 page 16

// -----

// cache_c2
// expected-error @+1 {{expected elem f64, f32, bf16, f16 or i8, got 'i4'}}
program.cache @c ring heads 1 dim 16 elem i4 window 8 page 16

// -----

// cache_c3: ring
// expected-error @+1 {{expected a ring of window >= 1, got 0}}
program.cache @c ring heads 1 dim 16 elem f32 window 0 page 16

// -----

// cache_c3: paged
// expected-error @+1 {{expected window 0 of pages, got 8}}
program.cache @c paged heads 1 dim 16 elem f32 window 8 page 16

// -----

// cache_c4: paged
// expected-error @+1 {{expected no ring_pages without a ring}}
program.cache @c paged heads 1 dim 16 elem f32 window 0 page 16 {ring_pages = 4}

// -----

// cache_c4: too few
// expected-error @+1 {{expected ring_pages that hold 33 positions, got 2 pages of 16}}
program.cache @c ring heads 1 dim 16 elem f32 window 33 page 16 {ring_pages = 2}

// -----

// table_c1
// expected-error @+1 {{expected a positive finite theta, got 0.000000e+00}}
program.table @t theta 0.0 denom 16 active 8 elem f32

// -----

// table_c2
// expected-error @+1 {{expected positive denom and active, got 16 and 0}}
program.table @t theta 1.0 denom 16 active 0 elem f32

// -----

// table_c3
// expected-error @+1 {{expected elem f64 or f32, got 'bf16'}}
program.table @t theta 1.0 denom 16 active 8 elem bf16

// -----

// cache_c5: keys alone
// expected-error @+1 {{expected lanes [k, v] or [v], got [k]}}
program.cache @c paged heads 1 dim 16 lanes [k] elem f32 window 0 page 16

// -----

// ref_c3: a lane that is not stored
program.cache @c paged heads 1 dim 16 lanes [v] elem f32 window 0 page 16
program.variant @all target "host" when affine_set<()[T, B, Q, S, R] : (0 == 0)> {
  // expected-error @+1 {{expected lane "v" of a cache of values alone, got "k"}}
  %0 = program.ref @c lane "k" : memref<?x1x16x16xf32>
}
