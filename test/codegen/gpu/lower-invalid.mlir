// RUN: gemma-opt %s --split-input-file --verify-diagnostics --gemma-lower-kernels-to-gpu

// More shared memory than the launch gives.
// expected-error @+1 {{expected launch to give at least 512 bytes of shared memory, got 256}}
kernel.func @k(%y: memref<?x128xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)>
    attributes {launch = #kernel.launch<threads = 32, shared = 256>} {
  %s = kernel.scratch : memref<128xf32>
  kernel.grid %j {
  }
  kernel.return
}

// -----

// Warps that only copy: another path's.
// expected-error @+1 {{has 1 producer warps: all warps of a portable kernel copy and compute}}
kernel.func @k() grid affine_map<()[T, B, Q, S, R] -> (T)>
    attributes {launch = #kernel.launch<threads = 96, shared = 0, producers = 1>} {
  kernel.return
}

// -----

// Types that GPU kernels do not compute with.
kernel.func @k(%x: memref<?x8xf64> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf64> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)>
    attributes {launch = #kernel.launch<threads = 32, shared = 0>} {
  kernel.grid %j {
    // expected-error @+1 {{holds f64, which GPU kernels do not compute with}}
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 1)> extent <T>
      ins(%x : memref<?x8xf64>) outs(%y : memref<?x8xf64>)
      maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
    ^bb0(%a: tensor<8xf64>):
      kernel.yield %a : tensor<8xf64>
    }
  }
  kernel.return
}

// -----

// A contraction without a tile.
kernel.func @k(%x: memref<?x64xbf16> {kernel.access = #kernel.access<read>}, %w: memref<6x32x16x2xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> attributes {launch = #kernel.launch<threads = 32, shared = 0>} {
  kernel.grid %j {
    // expected-error @+1 {{has no gpu_tile}}
    kernel.contract block %j act(%x : memref<?x64xbf16>) weight(%w : memref<6x32x16x2xbf16>)
      out(%y : memref<?x96xbf16>) extent <T> panels 1 row_tile 8 {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
  }
  kernel.return
}

// -----

// A tile that the warps cannot share.
kernel.func @k(%x: memref<?x64xbf16> {kernel.access = #kernel.access<read>}, %w: memref<1x12x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> attributes {launch = #kernel.launch<threads = 96, shared = 65536>} {
  kernel.grid %j {
    // expected-error @+1 {{expected a tile of 16-row by 8-token pieces that 3 warps can share equally, got 64 by 8}}
    kernel.contract block %j act(%x : memref<?x64xbf16>) weight(%w : memref<1x12x8x64xbf16>)
      out(%y : memref<?x96xbf16>) extent <T> panels 1 row_tile 1
      attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 2>} {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
  }
  kernel.return
}

// -----

// A contraction's activations are on their way before anything else.
kernel.func @k(%x: memref<?x64xf32> {kernel.access = #kernel.access<read>}, %a: memref<?x64xbf16> {kernel.access = #kernel.access<readwrite>}, %w: memref<1x8x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x64xbf16> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (1)>
    attributes {launch = #kernel.launch<threads = 128, shared = 32768>} {
  // expected-error @+1 {{writes what a kernel.contract of the same GPU kernel copies before it}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T> ins(%x : memref<?x64xf32>) outs(%a : memref<?x64xbf16>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r : tensor<64xf32>
  }
  kernel.grid %j {
    kernel.contract block %j act(%a : memref<?x64xbf16>) weight(%w : memref<1x8x8x64xbf16>) out(%y : memref<?x64xbf16>)
      extent <T> panels 1 row_tile 1
      attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 2>} {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
  }
  kernel.return
}
