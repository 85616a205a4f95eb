// RUN: gemma-opt %s --split-input-file --verify-diagnostics

// func_c1
// expected-error @+1 {{expected a grid of 0 dimensions, 5 symbols and 1 result, got 1, 4 and 1}}
kernel.func @k() grid affine_map<(d)[T, B, Q, S] -> (T)> {
  kernel.return
}

// -----

// func_c2: not a memref
// expected-error @+1 {{expected argument 0 to be a memref of which only the first dimension is dynamic, got 'f32'}}
kernel.func @k(%x: f32 {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.return
}

// -----

// func_c2: a dynamic row
// expected-error @+1 {{expected argument 0 to be a memref of which only the first dimension is dynamic, got 'memref<4x?xf32>'}}
kernel.func @k(%x: memref<4x?xf32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.return
}

// -----

// func_c3
// expected-error @+1 {{expected kernel.access on argument 1}}
kernel.func @k(%x: memref<4xf32> {kernel.access = #kernel.access<read>}, %y: memref<4xf32>) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.return
}

// -----

// func_c4
// expected-error @+1 {{expected one kernel.grid, got 2}}
kernel.func @k() grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %i {
  }
  kernel.grid %j {
  }
  kernel.return
}

// -----

// func_c5
// expected-error @+1 {{expected to end with kernel.return}}
kernel.func @k() grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.yield
}

// -----

// func_c6: read
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<write>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{reads argument 0 of the kernel, which is declared write}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return
}

// -----

// func_c6: write
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{writes argument 1 of the kernel, which is declared read}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return
}

// -----

// grid_c1
kernel.func @k() grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected one block argument, an index}}
  "kernel.grid"() ({
    "kernel.end"() : () -> ()
  }) : () -> ()
  kernel.return
}

// -----

// func_c7
kernel.func @k(%x: memref<?x64xbf16> {kernel.access = #kernel.access<read>}, %w: memref<1x8x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x64xbf16> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)>
    attributes {launch = #kernel.launch<threads = 32, shared = 0>} {
  // expected-error @+1 {{lies outside kernel.grid, where a GPU kernel has only rows and scratch}}
  kernel.contract act(%x : memref<?x64xbf16>) weight(%w : memref<1x8x8x64xbf16>) out(%y : memref<?x64xbf16>)
    extent <T> panels 1 row_tile 1
    attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 2>} {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// launch_c1: not a multiple of 32
// expected-error @+2 {{expected threads to be a multiple of 32 in [32, 1024], got 48}}
kernel.func @k() grid affine_map<()[T, B, Q, S, R] -> (T)>
    attributes {launch = #kernel.launch<threads = 48, shared = 0>} {
  kernel.return
}

// -----

// launch_c1: too many
// expected-error @+2 {{expected threads to be a multiple of 32 in [32, 1024], got 1056}}
kernel.func @k() grid affine_map<()[T, B, Q, S, R] -> (T)>
    attributes {launch = #kernel.launch<threads = 1056, shared = 0>} {
  kernel.return
}

// -----

// launch_c2
// expected-error @+2 {{expected shared >= 0, got -1}}
kernel.func @k() grid affine_map<()[T, B, Q, S, R] -> (T)>
    attributes {launch = #kernel.launch<threads = 32, shared = -1>} {
  kernel.return
}

// -----

// launch_c3: no warp is left
// expected-error @+2 {{expected at least 0 producers and fewer than the 4 warps, got 4}}
kernel.func @k() grid affine_map<()[T, B, Q, S, R] -> (T)>
    attributes {launch = #kernel.launch<threads = 128, shared = 0, producers = 4>} {
  kernel.return
}
