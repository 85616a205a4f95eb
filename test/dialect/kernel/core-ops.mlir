// RUN: gemma-opt %s --verify-roundtrip

// Contractions, alone and of gate and up side by side.
kernel.func @contract(%x: memref<?x63xf32> {kernel.access = #kernel.access<read>}, %w: memref<6x63x16xf32> {kernel.access = #kernel.access<read>},
                      %narrow: memref<6x32x16x2xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<write>},
                      %z: memref<?x48xbf16> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (3)> {
  kernel.grid %j {
    kernel.contract block %j act(%x : memref<?x63xf32>) weight(%w : memref<6x63x16xf32>)
      out(%y : memref<?x96xf32>) extent <T> panels 2 row_tile 8 {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
    kernel.contract block %j act(%x : memref<?x63xf32>) weight(%narrow : memref<6x32x16x2xbf16>)
      out(%z : memref<?x48xbf16>) extent <R> panels 2 row_tile 4 pair {
    ^bb0(%gate: f64, %up: f64):
      %0 = math.tanh %gate : f64
      %1 = arith.mulf %0, %up : f64
      kernel.yield %1 : f64
    }
  }
  kernel.return
}

// Attention over a ring and over pages.
kernel.func @attention(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
                       %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
                       %row_starts: memref<?xi32> {kernel.access = #kernel.access<read>}, %seq_lens: memref<?xi32> {kernel.access = #kernel.access<read>},
                       %slots: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>})
    grid affine_map<()[T, B, Q, S, R] -> ((T floordiv 8 + B) * 2)> {
  kernel.grid %j {
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%row_starts, %seq_lens, %slots, %page_table
            : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%row_starts, %seq_lens, %slots, %page_table
            : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 1 window 0 scale 0.25 paging <page = 8, ring = 0> accumulate f64
  }
  kernel.return
}

// Caches of codes with their scales.
kernel.func @codes(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xi8> {kernel.access = #kernel.access<read>},
                   %v: memref<?x2x8x16xi8> {kernel.access = #kernel.access<read>}, %s: memref<?x2x8xf32> {kernel.access = #kernel.access<read>},
                   %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
                   %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>})
    grid affine_map<()[T, B, Q, S, R] -> ((T floordiv 8 + B) * 2)> {
  kernel.grid %j {
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xi8>)
      v(%v : memref<?x2x8x16xi8>) scales(%s, %s : memref<?x2x8xf32>, memref<?x2x8xf32>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// Keys computed from values.
kernel.func @values_alone(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>},
                          %w: memref<16xf32> {kernel.access = #kernel.access<read>}, %cos_hi: memref<512x2xf32> {kernel.access = #kernel.access<read>},
                          %sin_hi: memref<512x2xf32> {kernel.access = #kernel.access<read>}, %cos_lo: memref<512x2xf32> {kernel.access = #kernel.access<read>},
                          %sin_lo: memref<512x2xf32> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
                          %row_starts: memref<?xi32> {kernel.access = #kernel.access<read>}, %seq_lens: memref<?xi32> {kernel.access = #kernel.access<read>},
                          %slots: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>})
    grid affine_map<()[T, B, Q, S, R] -> ((T floordiv 8 + B) * 2)> {
  kernel.grid %j {
    kernel.attention block %j q(%q : memref<?x4x16xf32>)
      keys_of_values(%w, %cos_hi, %sin_hi, %cos_lo, %sin_lo
            : memref<16xf32>, memref<512x2xf32>, memref<512x2xf32>, memref<512x2xf32>, memref<512x2xf32>) rot 16
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%row_starts, %seq_lens, %slots, %page_table
            : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 0 scale 1.0 paging <page = 8, ring = 0> accumulate f32
  }
  kernel.return
}

kernel.func @top(%x: memref<?x512xf32> {kernel.access = #kernel.access<read>}, %values: memref<?x4xf32> {kernel.access = #kernel.access<write>},
                 %ids: memref<?x4xi32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (R)> {
  kernel.grid %j {
    kernel.topk block %j ins(%x : memref<?x512xf32>)
      outs(%values, %ids : memref<?x4xf32>, memref<?x4xi32>) k 4
  }
  kernel.return
}

// Blocks that share tiles, and blocks that share a sequence's keys.
kernel.func @shared(%x: memref<?x96xbf16> {kernel.access = #kernel.access<read>}, %w: memref<2x12x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xbf16> {kernel.access = #kernel.access<write>},
                    %p: memref<8x512xf32> {kernel.access = #kernel.access<readwrite>}, %t: memref<4xi32> {kernel.access = #kernel.access<readwrite>})
    grid affine_map<()[T, B, Q, S, R] -> (4)> {
  kernel.grid %j {
    kernel.contract block %j act(%x : memref<?x96xbf16>) weight(%w : memref<2x12x8x64xbf16>)
      out(%y : memref<?x96xbf16>) partials(%p : memref<8x512xf32>) tickets(%t : memref<4xi32>)
      extent <T> panels 1 row_tile 1
      attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 4, segments = 4>} {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
  }
  kernel.return
}
kernel.func @split(%q: memref<?x12x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x16xbf16> {kernel.access = #kernel.access<read>},
                   %v: memref<?x2x16x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
                   %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>},
                   %p: memref<?x2x3x2x20xf32> {kernel.access = #kernel.access<readwrite>}, %t: memref<8xi32> {kernel.access = #kernel.access<readwrite>})
    grid affine_map<()[T, B, Q, S, R] -> (B * 6)> {
  kernel.grid %j {
    kernel.attention block %j q(%q : memref<?x12x16xf32>) k(%k : memref<?x2x16x16xbf16>)
      v(%v : memref<?x2x16x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      partials(%p : memref<?x2x3x2x20xf32>) tickets(%t : memref<8xi32>)
      query_tile 1 window 16 scale 1.0 paging <page = 16, ring = 2> accumulate f32
      {gpu_tile = #kernel.flash<keys = 16, stages = 1, splits = 3, run = 2>}
  }
  kernel.return
}

// Rows as codes, a row a block, and their product with 8-bit and with 4-bit weights; in a kernel's
// scratch, all rows before the grid.
kernel.func @quantised(%x: memref<?x63xf32> {kernel.access = #kernel.access<read>},
    %codes: memref<?x64xi8> {kernel.access = #kernel.access<write>},
    %scales: memref<?x2xf32> {kernel.access = #kernel.access<write>},
    %starts: memref<?x2xi32> {kernel.access = #kernel.access<write>},
    %w: memref<6x2x8x16x4xi8> {kernel.access = #kernel.access<read>},
    %nibbles: memref<6x2x4x16x4xi8> {kernel.access = #kernel.access<read>},
    %ws: memref<6x2x16xf16> {kernel.access = #kernel.access<read>},
    %y: memref<?x96xf32> {kernel.access = #kernel.access<write>},
    %z: memref<?x48xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (3)> {
  %c = kernel.scratch : memref<8x64xi16>
  %s = kernel.scratch : memref<8x2xf32>
  %n = kernel.scratch : memref<8x2xi32>
  kernel.quantize ins(%x : memref<?x63xf32>)
    outs(%c, %s, %n : memref<8x64xi16>, memref<8x2xf32>, memref<8x2xi32>) extent <T> zero 8
  kernel.grid %j {
    kernel.quantize block %j ins(%x : memref<?x63xf32>)
      outs(%codes, %scales, %starts : memref<?x64xi8>, memref<?x2xf32>, memref<?x2xi32>) extent <T> zero 128
    kernel.contract block %j act(%c : memref<8x64xi16>) weight(%w : memref<6x2x8x16x4xi8>)
      out(%y : memref<?x96xf32>) quantised(%ws, %s, %n : memref<6x2x16xf16>, memref<8x2xf32>, memref<8x2xi32>)
      extent <T> panels 2 row_tile 8 {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
    kernel.contract block %j act(%c : memref<8x64xi16>) weight(%nibbles : memref<6x2x4x16x4xi8>)
      out(%z : memref<?x48xf32>) quantised(%ws, %s, %n : memref<6x2x16xf16>, memref<8x2xf32>, memref<8x2xi32>)
      extent <T> panels 2 row_tile 8 pair {
    ^bb0(%gate: f32, %up: f32):
      %r = arith.mulf %gate, %up : f32
      kernel.yield %r : f32
    }
  }
  kernel.return
}

// The largest entry of each tile, and of a row then.
kernel.func @largest(%x: memref<?x96xbf16> {kernel.access = #kernel.access<read>}, %w: memref<2x12x8x64xbf16> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<readwrite>},
                     %best: memref<?x2x2xi32> {kernel.access = #kernel.access<readwrite>}, %v: memref<?x1xf32> {kernel.access = #kernel.access<write>}, %i: memref<?x1xi32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (R)> {
  kernel.grid %j {
    kernel.contract block %j act(%x : memref<?x96xbf16>) weight(%w : memref<2x12x8x64xbf16>)
      out(%y : memref<?x96xf32>) best(%best : memref<?x2x2xi32>) extent <R> panels 1 row_tile 1
      attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 4>} {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
    kernel.topk block %j ins(%y : memref<?x96xf32>) best(%best : memref<?x2x2xi32>)
      outs(%v, %i : memref<?x1xf32>, memref<?x1xi32>) k 1
  }
  kernel.return
}
