// RUN: gemma-opt %s --split-input-file --verify-diagnostics

// variant_c1
// expected-error @+1 {{expected a condition of 0 dimensions and 5 symbols, got 1 and 0}}
program.variant @v target "host" when affine_set<(T) : (8 - T >= 0)> {
}

// -----

// variant_c2
// expected-error @+1 {{expected arena >= 0, got -64}}
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> attributes {arena = -64 : i64} {
}

// -----

// variant_c3
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected no op of another dialect in a program.variant}}
  %0 = arith.constant 0 : index
}

// -----

// input_c1
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected the name of an input, got "weights"}}
  %0 = program.input "weights" : memref<?xi32>
}

// -----

// input_c2
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected memory of rank 2, got 'memref<?xi32>'}}
  %0 = program.input "page_table" : memref<?xi32>
}

// -----

// input_c2: rank 1
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected memory of rank 1, got 'memref<?x1xi32>'}}
  %0 = program.input "tokens" : memref<?x1xi32>
}

// -----

// output_c1
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected a name}}
  %0 = program.output "" : memref<?x8xf32>
}

// -----

// ref_c1
program.weight @w : tensor<96xf32> from ["w"]
program.cache @c ring heads 2 dim 16 elem bf16 window 8 page 8
program.table @t theta 1.0 denom 16 active 8 elem f32
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected @none to name a program.weight, program.cache or program.table}}
  %0 = program.ref @none : memref<96xf32>
}

// -----

// ref_c2: lane
program.weight @w : tensor<96xf32> from ["w"]
program.cache @c ring heads 2 dim 16 elem bf16 window 8 page 8
program.table @t theta 1.0 denom 16 active 8 elem f32
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected no lane of a weight, but scales of a packed one of i8 or i4, got "k"}}
  %0 = program.ref @w lane "k" : memref<96xf32>
}

// -----

// ref_c2: scales
program.weight @w : tensor<40x40xi8> from ["w"] layout <panel = 16, kpack = 4, interleave = 1>
  packed memref<3x2x8x16x4xi8>
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected memory 'memref<3x2x16xf16>', got 'memref<3x2x16xf32>'}}
  %0 = program.ref @w lane "scales" : memref<3x2x16xf32>
}

// -----

// ref_c2: type
program.weight @w : tensor<96xf32> from ["w"]
program.cache @c ring heads 2 dim 16 elem bf16 window 8 page 8
program.table @t theta 1.0 denom 16 active 8 elem f32
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected memory 'memref<96xf32>', got 'memref<95xf32>'}}
  %0 = program.ref @w : memref<95xf32>
}

// -----

// ref_c2: packed
program.weight @w : tensor<96x64xf32> from ["w"] layout <panel = 16, kpack = 1, interleave = 1>
  packed memref<6x64x16xf32>
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected memory 'memref<6x64x16xf32>', got 'memref<96x64xf32>'}}
  %0 = program.ref @w : memref<96x64xf32>
}

// -----

// ref_c3: lane
program.weight @w : tensor<96xf32> from ["w"]
program.cache @c ring heads 2 dim 16 elem bf16 window 8 page 8
program.table @t theta 1.0 denom 16 active 8 elem f32
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected lane "k" or "v", got ""}}
  %0 = program.ref @c : memref<?x2x16x8xbf16>
}

// -----

// ref_c3: scales of floats
program.cache @c ring heads 2 dim 16 elem bf16 window 8 page 8
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected lane "k" or "v", got "v_scales"}}
  %0 = program.ref @c lane "v_scales" : memref<?x2x8xf32>
}

// -----

// ref_c3: scales of keys that are not stored
program.cache @c paged heads 2 dim 16 lanes [v] elem i8 window 0 page 8
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected lane "v" of a cache of values alone, got "k_scales"}}
  %0 = program.ref @c lane "k_scales" : memref<?x2x8xf32>
}

// -----

// ref_c3: type of scales
program.cache @c ring heads 2 dim 16 elem i8 window 8 page 8
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected memory 'memref<?x2x8xf32>', got 'memref<?x2x16xf32>'}}
  %0 = program.ref @c lane "k_scales" : memref<?x2x16xf32>
}

// -----

// ref_c3: type
program.weight @w : tensor<96xf32> from ["w"]
program.cache @c ring heads 2 dim 16 elem bf16 window 8 page 8
program.table @t theta 1.0 denom 16 active 8 elem f32
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected memory 'memref<?x2x8x16xbf16>', got 'memref<?x2x16x8xbf16>'}}
  %0 = program.ref @c lane "v" : memref<?x2x16x8xbf16>
}

// -----

// ref_c4: lane
program.weight @w : tensor<96xf32> from ["w"]
program.cache @c ring heads 2 dim 16 elem bf16 window 8 page 8
program.table @t theta 1.0 denom 16 active 8 elem f32
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected lane cos_hi, sin_hi, cos_lo or sin_lo, got "cos"}}
  %0 = program.ref @t lane "cos" : memref<512x8xf32>
}

// -----

// ref_c4: type
program.weight @w : tensor<96xf32> from ["w"]
program.cache @c ring heads 2 dim 16 elem bf16 window 8 page 8
program.table @t theta 1.0 denom 16 active 8 elem f32
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected memory 'memref<512x8xf32>', got 'memref<512x16xf32>'}}
  %0 = program.ref @t lane "cos_lo" : memref<512x16xf32>
}

// -----

// buffer_c1: no extent
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected an extent for 'memref<?x8xf32>'}}
  %0 = program.buffer : memref<?x8xf32>
}

// -----

// buffer_c1: not needed
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected no extent for 'memref<4x8xf32>'}}
  %0 = program.buffer extent "T" : memref<4x8xf32>
}

// -----

// buffer_c1: a dynamic row
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected only the first dimension dynamic, got 'memref<?x?xf32>'}}
  %0 = program.buffer extent "T" : memref<?x?xf32>
}

// -----

// buffer_c2
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected extent "T", "B" or "R", got "S"}}
  %0 = program.buffer extent "S" : memref<?x8xf32>
}

// -----

// buffer_c3
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected an offset that is a multiple of 64, got 32}}
  %0 = program.buffer extent "T" offset 32 : memref<?x8xf32>
}

// -----

// view_c1: element
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  %b = program.buffer extent "T" : memref<?x96xf32>
  // expected-error @+1 {{expected the element type and the rows of 'memref<?x96xf32>', got 'memref<?x6x16xbf16>'}}
  %0 = program.view %b at 0 : memref<?x96xf32> to memref<?x6x16xbf16>
}

// -----

// view_c1: rows
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  %b = program.buffer extent "T" : memref<?x96xf32>
  // expected-error @+1 {{expected the element type and the rows of 'memref<?x96xf32>', got 'memref<4x6x16xf32>'}}
  %0 = program.view %b at 0 : memref<?x96xf32> to memref<4x6x16xf32>
}

// -----

// view_c2
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  %b = program.buffer extent "T" : memref<?x96xf32>
  // expected-error @+1 {{expected row stride 96 and layout offset 0, got 'memref<?x2x16xf32>'}}
  %0 = program.view %b at 0 : memref<?x96xf32> to memref<?x2x16xf32>
}

// -----

// view_c2: offset
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  %b = program.buffer extent "T" : memref<?x96xf32>
  // expected-error @+1 {{expected row stride 96 and layout offset 0, got 'memref<?x2x16xf32, strided<[96, 16, 1], offset: 32>>'}}
  %0 = program.view %b at 32 : memref<?x96xf32> to memref<?x2x16xf32, strided<[96, 16, 1], offset: 32>>
}

// -----

// view_c3
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  %b = program.buffer extent "T" : memref<?x96xf32>
  // expected-error @+1 {{expected rows without gaps, got 'memref<?x2x16xf32, strided<[96, 32, 1]>>'}}
  %0 = program.view %b at 0 : memref<?x96xf32> to memref<?x2x16xf32, strided<[96, 32, 1]>>
}

// -----

// view_c4
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  %b = program.buffer extent "T" : memref<?x96xf32>
  // expected-error @+1 {{expected a part of the 96 elements of a row, got 32 at 65}}
  %0 = program.view %b at 65 : memref<?x96xf32> to memref<?x2x16xf32, strided<[96, 16, 1]>>
}

// -----

// launch_c1
kernel.func @k(%x: memref<?x96xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.return
}
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  %b = program.buffer extent "T" : memref<?x96xf32>
  // expected-error @+1 {{expected @none to name a kernel.func}}
  program.launch @none(%b) : memref<?x96xf32>
}

// -----

// launch_c2
kernel.func @k(%x: memref<?x96xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.return
}
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  %b = program.buffer extent "T" : memref<?x96xf32>
  // expected-error @+1 {{expected 2 arguments, got 1}}
  program.launch @k(%b) : memref<?x96xf32>
}

// -----

// launch_c3: shape
// expected-note @+1 {{the kernel is here}}
kernel.func @k(%x: memref<?x96xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.return
}
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  %b = program.buffer extent "T" : memref<?x96xf32>
  %s = program.buffer extent "T" : memref<?x64xf32>
  // expected-error @+1 {{expected argument 1 of 'memref<?x96xf32>', got 'memref<?x64xf32>'}}
  program.launch @k(%b, %s) : memref<?x96xf32>, memref<?x64xf32>
}

// -----

// launch_c3: strides, which a kernel does not get
// expected-note @+1 {{the kernel is here}}
kernel.func @k(%x: memref<?x96xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.return
}
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  %b = program.buffer extent "T" : memref<?x96xf32>
  %w = program.buffer extent "T" : memref<?x192xf32>
  %s = program.view %w at 0 : memref<?x192xf32> to memref<?x96xf32, strided<[192, 1]>>
  // expected-error @+1 {{expected argument 0 of 'memref<?x96xf32>', got 'memref<?x96xf32, strided<[192, 1]>>'}}
  program.launch @k(%s, %b) : memref<?x96xf32, strided<[192, 1]>>, memref<?x96xf32>
}

// -----

// launch_c4
kernel.func @k(%x: memref<?x96xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.return
}
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  %b = program.buffer extent "T" : memref<?x96xf32>
  // expected-error @+1 {{expected argument 1, which is written, to share no memory with argument 0}}
  program.launch @k(%b, %b) : memref<?x96xf32>, memref<?x96xf32>
}

// -----

// launch_c4: through a view
kernel.func @k(%x: memref<?x96xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.return
}
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  %b = program.buffer extent "T" : memref<?x96xf32>
  %s = program.view %b at 0 : memref<?x96xf32> to memref<?x96xf32>
  // expected-error @+1 {{expected argument 1, which is written, to share no memory with argument 0}}
  program.launch @k(%b, %s) : memref<?x96xf32>, memref<?x96xf32>
}

// -----

// launch_c4: one output under two names
kernel.func @k(%x: memref<?x96xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.return
}
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  %a = program.output "y" : memref<?x96xf32>
  %c = program.output "y" : memref<?x96xf32>
  // expected-error @+1 {{expected argument 1, which is written, to share no memory with argument 0}}
  program.launch @k(%a, %c) : memref<?x96xf32>, memref<?x96xf32>
}

// -----

// tickets_c1
program.variant @v target "cuda" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  // expected-error @+1 {{expected memory of rank 1 and static size, got 'memref<?xi32>'}}
  %0 = program.tickets : memref<?xi32>
}

// -----

// launch_c4: all tickets begin at the same place
kernel.func @k(%t: memref<4xi32> {kernel.access = #kernel.access<readwrite>}, %u: memref<8xi32> {kernel.access = #kernel.access<readwrite>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.return
}
program.variant @v target "cuda" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  %0 = program.tickets : memref<4xi32>
  %1 = program.tickets : memref<8xi32>
  // expected-error @+1 {{expected argument 0, which is written, to share no memory with argument 1}}
  program.launch @k(%0, %1) : memref<4xi32>, memref<8xi32>
}
