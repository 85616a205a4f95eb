// RUN: gemma-opt %s --verify-roundtrip

// Weights in every layout: as stored, in panels, in pairs of k, gate and up side by side with the
// halves padded, in tiles for tensor cores, in groups of integers; caches of both kinds, with keys and without; angle
// tables.
program.weight @norm : tensor<96xf32> from ["norm.weight"]
program.weight @plain : tensor<96x63xf16> from ["w"] layout <panel = 0, kpack = 1, interleave = 1>
  packed memref<96x63xf16>
program.weight @vector : tensor<96xf32> from ["w"] layout <panel = 0, kpack = 1, interleave = 1>
  packed memref<96xf32>
program.weight @panels : tensor<97x63xf32> from ["w"] layout <panel = 16, kpack = 1, interleave = 1>
  packed memref<7x63x16xf32>
program.weight @l3.qkv : tensor<8192x3840xbf16> from ["layers.3.self_attn.q_proj.weight"]
  layout <panel = 16, kpack = 2, interleave = 1> packed memref<512x1920x16x2xbf16>
program.weight @gate_up : tensor<72x63xbf16> from ["gate", "up"]
  layout <panel = 16, kpack = 2, interleave = 2> packed memref<6x32x16x2xbf16>
program.weight @tiles : tensor<97x65xbf16> from ["w"] layout <panel = 8, kpack = 64, interleave = 1>
  packed memref<2x13x8x64xbf16>
program.weight @tile_pairs : tensor<72x64xbf16> from ["gate", "up"]
  layout <panel = 8, kpack = 64, interleave = 2> packed memref<1x10x8x64xbf16>
program.weight @bytes : tensor<97x65xi8> from ["w"] layout <panel = 16, kpack = 4, interleave = 1>
  packed memref<7x3x8x16x4xi8>
program.weight @nibbles : tensor<72x63xi4> from ["gate", "up"]
  layout <panel = 16, kpack = 4, interleave = 2> packed memref<6x2x4x16x4xi8>
program.cache @c3 ring heads 8 dim 256 lanes [k, v] elem bf16 window 1024 page 16 {ring_pages = 96}
program.cache @c4 ring heads 8 dim 256 elem f64 window 1024 page 16
program.cache @c5 paged heads 1 dim 512 elem f32 window 0 page 16
program.cache @c6 paged heads 1 dim 512 lanes [v] elem bf16 window 0 page 16
program.table @angles theta 1.0e4 denom 256 active 128 elem f32
