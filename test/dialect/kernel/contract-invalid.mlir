// RUN: gemma-opt %s --split-input-file --verify-diagnostics

// contract_c1
kernel.func @k(%x: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %w: memref<6x32x16x2xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected act and out of [T, N] floats with static N, got 'memref<?x4x16xf32>'}}
  kernel.contract act(%x : memref<?x4x16xf32>) weight(%w : memref<6x32x16x2xbf16>)
    out(%y : memref<?x96xf32>) extent <T> panels 2 row_tile 8 {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c1: floats for codes
kernel.func @k(%x: memref<?x64xf32> {kernel.access = #kernel.access<read>}, %w: memref<2x2x8x16x4xi8> {kernel.access = #kernel.access<read>}, %ws: memref<2x2x16xf16> {kernel.access = #kernel.access<read>}, %s: memref<?x2xf32> {kernel.access = #kernel.access<read>}, %n: memref<?x2xi32> {kernel.access = #kernel.access<read>}, %y: memref<?x32xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (1)> {
  kernel.grid %j {
    // expected-error @+1 {{expected act and out of [T, N] floats with static N, got 'memref<?x64xf32>'}}
    kernel.contract block %j act(%x : memref<?x64xf32>) weight(%w : memref<2x2x8x16x4xi8>) out(%y : memref<?x32xf32>) quantised(%ws, %s, %n : memref<2x2x16xf16>, memref<?x2xf32>, memref<?x2xi32>) extent <T> panels 2 row_tile 8 {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
  }
  kernel.return
}

// -----

// contract_c8: scales of other groups
kernel.func @k(%x: memref<?x64xi8> {kernel.access = #kernel.access<read>}, %w: memref<2x2x8x16x4xi8> {kernel.access = #kernel.access<read>}, %ws: memref<2x1x16xf16> {kernel.access = #kernel.access<read>}, %s: memref<?x2xf32> {kernel.access = #kernel.access<read>}, %n: memref<?x2xi32> {kernel.access = #kernel.access<read>}, %y: memref<?x32xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (1)> {
  kernel.grid %j {
    // expected-error @+1 {{and quantised scales [P, G, 16] of f16, [T, G] of f32 and starts [T, G] of i32}}
    kernel.contract block %j act(%x : memref<?x64xi8>) weight(%w : memref<2x2x8x16x4xi8>) out(%y : memref<?x32xf32>) quantised(%ws, %s, %n : memref<2x1x16xf16>, memref<?x2xf32>, memref<?x2xi32>) extent <T> panels 2 row_tile 8 {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
  }
  kernel.return
}

// -----

// contract_c8: codes of other columns
kernel.func @k(%x: memref<?x32xi16> {kernel.access = #kernel.access<read>}, %w: memref<2x2x4x16x4xi8> {kernel.access = #kernel.access<read>}, %ws: memref<2x2x16xf16> {kernel.access = #kernel.access<read>}, %s: memref<?x2xf32> {kernel.access = #kernel.access<read>}, %n: memref<?x2xi32> {kernel.access = #kernel.access<read>}, %y: memref<?x32xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (1)> {
  kernel.grid %j {
    // expected-error @+1 {{expected codes [T, 32 G]}}
    kernel.contract block %j act(%x : memref<?x32xi16>) weight(%w : memref<2x2x4x16x4xi8>) out(%y : memref<?x32xf32>) quantised(%ws, %s, %n : memref<2x2x16xf16>, memref<?x2xf32>, memref<?x2xi32>) extent <T> panels 2 row_tile 8 {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
  }
  kernel.return
}

// -----

// contract_c2: columns
kernel.func @k(%x: memref<?x96xf32> {kernel.access = #kernel.access<read>}, %w: memref<6x32x16x2xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected a weight packed in panels of 16 with 96 columns, got 'memref<6x32x16x2xbf16>'}}
  kernel.contract act(%x : memref<?x96xf32>) weight(%w : memref<6x32x16x2xbf16>)
    out(%y : memref<?x96xf32>) extent <T> panels 2 row_tile 8 {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c2: pairs of wide elements
kernel.func @k(%x: memref<?x64xf32> {kernel.access = #kernel.access<read>}, %w: memref<6x32x16x2xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected a weight packed in panels of 16 with 64 columns, got 'memref<6x32x16x2xf32>'}}
  kernel.contract act(%x : memref<?x64xf32>) weight(%w : memref<6x32x16x2xf32>)
    out(%y : memref<?x96xf32>) extent <T> panels 2 row_tile 8 {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c2: not packed
kernel.func @k(%x: memref<?x64xf32> {kernel.access = #kernel.access<read>}, %w: memref<96x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected a weight packed in panels of 16 with 64 columns, got 'memref<96x64xbf16>'}}
  kernel.contract act(%x : memref<?x64xf32>) weight(%w : memref<96x64xbf16>)
    out(%y : memref<?x96xf32>) extent <T> panels 2 row_tile 8 {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c3
kernel.func @k(%x: memref<?x64xf32> {kernel.access = #kernel.access<read>}, %w: memref<6x32x16x2xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected positive panels and row_tile, got 2 and 0}}
  kernel.contract act(%x : memref<?x64xf32>) weight(%w : memref<6x32x16x2xbf16>)
    out(%y : memref<?x96xf32>) extent <T> panels 2 row_tile 0 {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c3: pair
kernel.func @k(%x: memref<?x64xf32> {kernel.access = #kernel.access<read>}, %w: memref<6x32x16x2xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected pairs of panels, got 3 of 6}}
  kernel.contract act(%x : memref<?x64xf32>) weight(%w : memref<6x32x16x2xbf16>)
    out(%y : memref<?x96xf32>) extent <T> panels 3 row_tile 8 pair {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c4
kernel.func @k(%x: memref<?x64xf32> {kernel.access = #kernel.access<read>}, %w: memref<6x32x16x2xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x97xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected out of at most the rows of 6 panels, got 97 columns}}
  kernel.contract act(%x : memref<?x64xf32>) weight(%w : memref<6x32x16x2xbf16>)
    out(%y : memref<?x97xf32>) extent <T> panels 2 row_tile 8 {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c4: pair
kernel.func @k(%x: memref<?x64xf32> {kernel.access = #kernel.access<read>}, %w: memref<6x32x16x2xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected out of at most the rows of 3 panels, got 96 columns}}
  kernel.contract act(%x : memref<?x64xf32>) weight(%w : memref<6x32x16x2xbf16>)
    out(%y : memref<?x96xf32>) extent <T> panels 2 row_tile 8 pair {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c5: arguments
kernel.func @k(%x: memref<?x64xf32> {kernel.access = #kernel.access<read>}, %w: memref<6x32x16x2xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected an epilogue of 1 f32 or f64, got ('bf16')}}
  kernel.contract act(%x : memref<?x64xf32>) weight(%w : memref<6x32x16x2xbf16>)
    out(%y : memref<?x96xf32>) extent <T> panels 2 row_tile 8 {
  ^bb0(%sum: bf16):
    kernel.yield %sum : bf16
  }
  kernel.return
}

// -----

// contract_c5: pair
kernel.func @k(%x: memref<?x64xf32> {kernel.access = #kernel.access<read>}, %w: memref<6x32x16x2xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x48xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected an epilogue of 2 f32 or f64, got ('f32')}}
  kernel.contract act(%x : memref<?x64xf32>) weight(%w : memref<6x32x16x2xbf16>)
    out(%y : memref<?x48xf32>) extent <T> panels 2 row_tile 8 pair {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c5: yield
kernel.func @k(%x: memref<?x64xf32> {kernel.access = #kernel.access<read>}, %w: memref<6x32x16x2xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected the epilogue to yield one 'f32'}}
  kernel.contract act(%x : memref<?x64xf32>) weight(%w : memref<6x32x16x2xbf16>)
    out(%y : memref<?x96xf32>) extent <T> panels 2 row_tile 8 {
  ^bb0(%sum: f32):
    kernel.yield
  }
  kernel.return
}

// -----

// contract_c6
kernel.func @k(%x: memref<?x64xf32> {kernel.access = #kernel.access<read>}, %w: memref<6x32x16x2xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.contract act(%x : memref<?x64xf32>) weight(%w : memref<6x32x16x2xbf16>)
    out(%y : memref<?x96xf32>) extent <T> panels 2 row_tile 8 {
  ^bb0(%sum: f32):
    // expected-error @+1 {{cannot be in the epilogue of a kernel.contract}}
    %t = tensor.splat %sum : tensor<4xf32>
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c2: a GPU weight of other columns
kernel.func @k(%x: memref<?x96xbf16> {kernel.access = #kernel.access<read>}, %w: memref<1x12x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected a weight of 16-bit floats in 2 x G x 8 x 64 for 96 columns, got 'memref<1x12x8x64xbf16>'}}
  kernel.contract act(%x : memref<?x96xbf16>) weight(%w : memref<1x12x8x64xbf16>)
    out(%y : memref<?x96xbf16>) extent <T> panels 1 row_tile 1
    attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 4>} {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c4: too few groups
kernel.func @k(%x: memref<?x96xbf16> {kernel.access = #kernel.access<read>}, %w: memref<2x12x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x97xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected out of at most the rows of 12 groups, got 97 columns}}
  kernel.contract act(%x : memref<?x96xbf16>) weight(%w : memref<2x12x8x64xbf16>)
    out(%y : memref<?x97xbf16>) extent <T> panels 1 row_tile 1
    attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 4>} {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// mma_c1: rows
kernel.func @k(%x: memref<?x96xbf16> {kernel.access = #kernel.access<read>}, %w: memref<2x12x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+3 {{expected positive multiples, rows of 16, tokens of 8 and k of 64, got 8, 8 and 64}}
  kernel.contract act(%x : memref<?x96xbf16>) weight(%w : memref<2x12x8x64xbf16>)
    out(%y : memref<?x96xbf16>) extent <T> panels 1 row_tile 1
    attributes {gpu_tile = #kernel.mma<rows = 8, tokens = 8, k = 64, stages = 4>} {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// mma_c2
kernel.func @k(%x: memref<?x96xbf16> {kernel.access = #kernel.access<read>}, %w: memref<2x12x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+3 {{expected stages in [2, 8], got 1}}
  kernel.contract act(%x : memref<?x96xbf16>) weight(%w : memref<2x12x8x64xbf16>)
    out(%y : memref<?x96xbf16>) extent <T> panels 1 row_tile 1
    attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 1>} {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c1: prepared rows, and tiles of more tokens
kernel.func @k(%w: memref<2x8x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x64xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> attributes {launch = #kernel.launch<threads = 128, shared = 32768>} {
  %a = kernel.scratch : memref<2x3x64xbf16>
  kernel.grid %j {
    // expected-error @+1 {{expected act in scratch to be [K/64, R, 64] of bf16, R at most 8, beside a gpu_tile of 8 tokens, got 'memref<2x3x64xbf16>'}}
    kernel.contract block %j act(%a : memref<2x3x64xbf16>) weight(%w : memref<2x8x8x64xbf16>) out(%y : memref<?x64xbf16>)
      extent <T> panels 1 row_tile 1
      attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 16, k = 64, stages = 2>} {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
  }
  kernel.return
}

// -----

// contract_c1: prepared rows of f32
kernel.func @k(%w: memref<2x8x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x64xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> attributes {launch = #kernel.launch<threads = 128, shared = 32768>} {
  %a = kernel.scratch : memref<2x1x64xf32>
  kernel.grid %j {
    // expected-error @+1 {{expected act in scratch to be [K/64, R, 64] of bf16, R at most 8, beside a gpu_tile of 8 tokens, got 'memref<2x1x64xf32>'}}
    kernel.contract block %j act(%a : memref<2x1x64xf32>) weight(%w : memref<2x8x8x64xbf16>) out(%y : memref<?x64xbf16>)
      extent <T> panels 1 row_tile 1
      attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 2>} {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
  }
  kernel.return
}

// -----

// mma_c4
kernel.func @k(%x: memref<?x96xbf16> {kernel.access = #kernel.access<read>}, %w: memref<2x12x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+3 {{expected raster in [1, 256], got 0}}
  kernel.contract act(%x : memref<?x96xbf16>) weight(%w : memref<2x12x8x64xbf16>)
    out(%y : memref<?x96xbf16>) extent <T> panels 1 row_tile 1
    attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 4, raster = 0>} {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// mma_c3
kernel.func @k(%x: memref<?x96xbf16> {kernel.access = #kernel.access<read>}, %w: memref<2x12x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+3 {{expected segments in [0, 65535], got -1}}
  kernel.contract act(%x : memref<?x96xbf16>) weight(%w : memref<2x12x8x64xbf16>)
    out(%y : memref<?x96xbf16>) extent <T> panels 1 row_tile 1
    attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 4, segments = -1>} {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c7: no memory for parts
kernel.func @k(%x: memref<?x96xbf16> {kernel.access = #kernel.access<read>}, %w: memref<2x12x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected partials of f32 [8, 512] and at least 4 tickets}}
  kernel.contract act(%x : memref<?x96xbf16>) weight(%w : memref<2x12x8x64xbf16>)
    out(%y : memref<?x96xbf16>) extent <T> panels 1 row_tile 1
    attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 4, segments = 4>} {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c7: too few tickets
kernel.func @k(%x: memref<?x96xbf16> {kernel.access = #kernel.access<read>}, %w: memref<2x12x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xbf16> {kernel.access = #kernel.access<write>}, %p: memref<8x512xf32> {kernel.access = #kernel.access<readwrite>}, %t: memref<3xi32> {kernel.access = #kernel.access<readwrite>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected partials of f32 [8, 512] and at least 4 tickets}}
  kernel.contract act(%x : memref<?x96xbf16>) weight(%w : memref<2x12x8x64xbf16>)
    out(%y : memref<?x96xbf16>) partials(%p : memref<8x512xf32>) tickets(%t : memref<3xi32>) extent <T> panels 1 row_tile 1
    attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 4, segments = 4>} {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c7: nothing is shared
kernel.func @k(%x: memref<?x96xbf16> {kernel.access = #kernel.access<read>}, %w: memref<2x12x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xbf16> {kernel.access = #kernel.access<write>}, %p: memref<8x512xf32> {kernel.access = #kernel.access<readwrite>}, %t: memref<4xi32> {kernel.access = #kernel.access<readwrite>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected no partials and no tickets, as no two blocks share work}}
  kernel.contract act(%x : memref<?x96xbf16>) weight(%w : memref<2x12x8x64xbf16>)
    out(%y : memref<?x96xbf16>) partials(%p : memref<8x512xf32>) tickets(%t : memref<4xi32>) extent <T> panels 1 row_tile 1
    attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 4>} {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c9: a tile too few
kernel.func @k(%x: memref<?x96xbf16> {kernel.access = #kernel.access<read>}, %w: memref<2x17x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x136xf32> {kernel.access = #kernel.access<write>}, %b: memref<?x2x2xi32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected best of [T, 3, 2] beside a gpu_tile and out of f32, without pair, got 'memref<?x2x2xi32>'}}
  kernel.contract act(%x : memref<?x96xbf16>) weight(%w : memref<2x17x8x64xbf16>)
    out(%y : memref<?x136xf32>) best(%b : memref<?x2x2xi32>) extent <T> panels 1 row_tile 1
    attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 4>} {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}

// -----

// contract_c9: not for the host
kernel.func @k(%x: memref<?x63xf32> {kernel.access = #kernel.access<read>}, %w: memref<6x63x16xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>}, %b: memref<?x48x2xi32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected best of [T, 48, 2] beside a gpu_tile}}
  kernel.contract act(%x : memref<?x63xf32>) weight(%w : memref<6x63x16xf32>)
    out(%y : memref<?x96xf32>) best(%b : memref<?x48x2xi32>) extent <T> panels 1 row_tile 1 {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  }
  kernel.return
}
