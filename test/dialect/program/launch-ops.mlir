// RUN: gemma-opt %s --verify-roundtrip

// A launch list over every kind of memory.
program.weight @norm : tensor<96xf32> from ["norm.weight"]
program.cache @c3 ring heads 2 dim 16 elem bf16 window 8 page 16
program.table @angles theta 1.0e4 denom 16 active 8 elem f32

kernel.func @k0(%x: memref<?x96xf32> {kernel.access = #kernel.access<read>}, %w: memref<96xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.return
}
kernel.func @heads(%x: memref<?x2x16xf32, strided<[96, 16, 1]>> {kernel.access = #kernel.access<read>},
                   %y: memref<?x2x16xf32, strided<[96, 16, 1]>> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.return
}

program.variant @all target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> attributes {arena = 4096 : i64} {
  %tokens = program.input "tokens" : memref<?xi32>
  %table = program.input "page_table" : memref<?x8xi32>
  %x = program.buffer extent "T" offset 128 : memref<?x96xf32>
  %y = program.buffer extent "T" : memref<?x96xf32>
  %fixed = program.buffer : memref<4x96xf32>
  %parts = program.buffer workspace offset 64 : memref<4x96xf32>
  %w = program.ref @norm : memref<96xf32>
  %k = program.ref @c3 lane "k" : memref<?x2x16x16xbf16>
  %v = program.ref @c3 lane "v" : memref<?x2x16x16xbf16>
  %cos = program.ref @angles lane "cos_hi" : memref<512x8xf32>
  %logits = program.output "logits" : memref<?x512xf32>
  program.launch @k0(%x, %w, %y) : memref<?x96xf32>, memref<96xf32>, memref<?x96xf32>
  // Two parts of one buffer are two memories.
  %head = program.view %y at 0 : memref<?x96xf32> to memref<?x2x16xf32, strided<[96, 16, 1]>>
  %tail = program.view %y at 64 : memref<?x96xf32> to memref<?x2x16xf32, strided<[96, 16, 1]>>
  program.launch @heads(%head, %tail) : memref<?x2x16xf32, strided<[96, 16, 1]>>, memref<?x2x16xf32, strided<[96, 16, 1]>>
  %all = program.view %y at 0 : memref<?x96xf32> to memref<?x6x16xf32>
}

// The first variant whose condition holds runs.
program.cache @c4 ring heads 8 dim 256 elem bf16 window 1024 page 16
program.variant @decode target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
  %0 = program.buffer extent "T" : memref<?x96xf32>
}
program.variant @rest target "host" when affine_set<()[T, B, Q, S, R] : (T >= 0)> {
  %keys = program.ref @c4 lane "k" : memref<?x8x256x16xbf16>
  %qkv = program.buffer extent "T" : memref<?x8192xf32>
  %k = program.view %qkv at 4096 : memref<?x8192xf32> to memref<?x8x256xf32, strided<[8192, 256, 1]>>
}

// Counters that blocks of a launch share.
program.variant @shared target "cuda" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0)> {
  %0 = program.tickets : memref<264xi32>
}
