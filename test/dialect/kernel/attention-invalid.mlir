// RUN: gemma-opt %s --split-input-file --verify-diagnostics

// paging_c1
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+4 {{expected page >= 1, got 0}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 0, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// paging_c2
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+4 {{expected ring >= 0, got -1}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = -1> accumulate f32
  }
  kernel.return
}

// -----

// attention_c1: rank
kernel.func @k(%q: memref<?x64xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected q and out of [T, heads, D] floats, got 'memref<?x64xf32>'}}
    kernel.attention block %j q(%q : memref<?x64xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c1: shape
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x2x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected q and out of the same heads and D, got 'memref<?x4x16xf32>' and 'memref<?x2x16xf32>'}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x2x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c2: keys not transposed
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected caches [pages, kvHeads, 16, 8] and [pages, kvHeads, 8, 16], got 'memref<?x2x8x16xbf16>' and 'memref<?x2x8x16xbf16>'}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x8x16xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c3
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x3x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x3x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected KV heads that divide 4 heads, got 3}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x3x16x8xbf16>)
      v(%v : memref<?x3x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c4: rank 1
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?x1xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected row_starts, seq_lens and slots of rank 1, got 'memref<?x1xi32>'}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?x1xi32>, memref<?x1xi32>, memref<?x1xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c4: rank 2
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected a page_table of rank 2, got 'memref<?xi32>'}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c5: tile
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected query_tile >= 1 and window >= 0, got 0 and 16}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 0 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c5: scale
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected a finite scale, got 0x7FF0000000000000}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 0x7FF0000000000000 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c6: too small
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected a window that 2 pages of 8 hold, got 17}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 17 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c6: no window
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected a window that 2 pages of 8 hold, got 0}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 0 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c7
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected to accumulate in f32 or f64, got 'bf16'}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate bf16
  }
  kernel.return
}

// -----

// flash_c1
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+5 {{expected keys to be 16, 32, 64 or 128, got 48}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
      {gpu_tile = #kernel.flash<keys = 48, stages = 2>}
  }
  kernel.return
}

// -----

// flash_c2
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+5 {{expected stages in [1, 4], got 0}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
      {gpu_tile = #kernel.flash<keys = 64, stages = 0>}
  }
  kernel.return
}

// -----

// attention_c8: neither
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %w: memref<16xf32> {kernel.access = #kernel.access<read>}, %t: memref<512x2xf32> {kernel.access = #kernel.access<read>}, %u: memref<512x3xf32> {kernel.access = #kernel.access<read>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected either k, or keys_of_values and rot}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c8: both
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %w: memref<16xf32> {kernel.access = #kernel.access<read>}, %t: memref<512x2xf32> {kernel.access = #kernel.access<read>}, %u: memref<512x3xf32> {kernel.access = #kernel.access<read>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected either k, or keys_of_values and rot}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>) keys_of_values(%w, %t, %t, %t, %t : memref<16xf32>, memref<512x2xf32>, memref<512x2xf32>, memref<512x2xf32>, memref<512x2xf32>) rot 16
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c8: no rot
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %w: memref<16xf32> {kernel.access = #kernel.access<read>}, %t: memref<512x2xf32> {kernel.access = #kernel.access<read>}, %u: memref<512x3xf32> {kernel.access = #kernel.access<read>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected either k, or keys_of_values and rot}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) keys_of_values(%w, %t, %t, %t, %t : memref<16xf32>, memref<512x2xf32>, memref<512x2xf32>, memref<512x2xf32>, memref<512x2xf32>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c9: rot
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %w: memref<16xf32> {kernel.access = #kernel.access<read>}, %t: memref<512x2xf32> {kernel.access = #kernel.access<read>}, %u: memref<512x3xf32> {kernel.access = #kernel.access<read>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{and an even rot <= 16, got}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) keys_of_values(%w, %t, %t, %t, %t : memref<16xf32>, memref<512x2xf32>, memref<512x2xf32>, memref<512x2xf32>, memref<512x2xf32>) rot 18
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c9: active
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %w: memref<16xf32> {kernel.access = #kernel.access<read>}, %t: memref<512x2xf32> {kernel.access = #kernel.access<read>}, %u: memref<512x3xf32> {kernel.access = #kernel.access<read>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{and an even rot <= 16, got}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) keys_of_values(%w, %t, %t, %t, %t : memref<16xf32>, memref<512x2xf32>, memref<512x2xf32>, memref<512x2xf32>, memref<512x2xf32>) rot 2
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c9: four parts
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %w: memref<16xf32> {kernel.access = #kernel.access<read>}, %t: memref<512x2xf32> {kernel.access = #kernel.access<read>}, %u: memref<512x3xf32> {kernel.access = #kernel.access<read>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{and four tables [512, active]}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) keys_of_values(%w, %t, %t, %t : memref<16xf32>, memref<512x2xf32>, memref<512x2xf32>, memref<512x2xf32>) rot 16
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c9: tables of different sizes
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %w: memref<16xf32> {kernel.access = #kernel.access<read>}, %t: memref<512x2xf32> {kernel.access = #kernel.access<read>}, %u: memref<512x3xf32> {kernel.access = #kernel.access<read>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{and four tables [512, active]}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) keys_of_values(%w, %u, %t, %t, %t : memref<16xf32>, memref<512x3xf32>, memref<512x2xf32>, memref<512x2xf32>, memref<512x2xf32>) rot 16
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c10
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x24xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x24x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %w: memref<16xf32> {kernel.access = #kernel.access<read>}, %t: memref<512x2xf32> {kernel.access = #kernel.access<read>}, %u: memref<512x3xf32> {kernel.access = #kernel.access<read>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected a page that divides 512, got 24}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) keys_of_values(%w, %t, %t, %t, %t : memref<16xf32>, memref<512x2xf32>, memref<512x2xf32>, memref<512x2xf32>, memref<512x2xf32>) rot 16
      v(%v : memref<?x2x24x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 24, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// flash_c3
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x16xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x16x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+4 {{expected splits in [1, 128] and a positive run, got 0 and 1}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x16xbf16>)
      v(%v : memref<?x2x16x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 1 window 16 scale 1.0 paging <page = 16, ring = 2> accumulate f32 {gpu_tile = #kernel.flash<keys = 16, stages = 1, splits = 0>}
  }
  kernel.return
}

// -----

// attention_c1: queries of every split
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x16xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x16x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}, %p: memref<?x2x3x2x20xf32> {kernel.access = #kernel.access<readwrite>}, %t: memref<2xi32> {kernel.access = #kernel.access<readwrite>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected q and out of the same heads and D, the heads of q once a split}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x16xbf16>)
      v(%v : memref<?x2x16x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      partials(%p : memref<?x2x3x2x20xf32>) tickets(%t : memref<2xi32>)
      query_tile 1 window 16 scale 1.0 paging <page = 16, ring = 2> accumulate f32 {gpu_tile = #kernel.flash<keys = 16, stages = 1, splits = 3>}
  }
  kernel.return
}

// -----

// attention_c11: no memory for parts
kernel.func @k(%q: memref<?x12x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x16xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x16x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected partials of f32 [?, 2, 3, 2, 20] and at least 2 tickets}}
    kernel.attention block %j q(%q : memref<?x12x16xf32>) k(%k : memref<?x2x16x16xbf16>)
      v(%v : memref<?x2x16x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 1 window 16 scale 1.0 paging <page = 16, ring = 2> accumulate f32 {gpu_tile = #kernel.flash<keys = 16, stages = 1, splits = 3>}
  }
  kernel.return
}

// -----

// attention_c11: several queries
kernel.func @k(%q: memref<?x12x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x16xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x16x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}, %p: memref<?x2x3x2x20xf32> {kernel.access = #kernel.access<readwrite>}, %t: memref<2xi32> {kernel.access = #kernel.access<readwrite>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected query_tile 1 with splits, got 2}}
    kernel.attention block %j q(%q : memref<?x12x16xf32>) k(%k : memref<?x2x16x16xbf16>)
      v(%v : memref<?x2x16x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      partials(%p : memref<?x2x3x2x20xf32>) tickets(%t : memref<2xi32>)
      query_tile 2 window 16 scale 1.0 paging <page = 16, ring = 2> accumulate f32 {gpu_tile = #kernel.flash<keys = 16, stages = 1, splits = 3>}
  }
  kernel.return
}

// -----

// attention_c12: codes without scales
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xi8> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xi8> {kernel.access = #kernel.access<read>}, %s: memref<?x2x8xf32> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected scales [pages, 2, 8] of f32 for each cache of i8 and no others, accumulated in f32 and without gpu_tile}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xi8>)
      v(%v : memref<?x2x8x16xi8>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 1 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c12: floats with scales
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %s: memref<?x2x8xf32> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected scales [pages, 2, 8] of f32 for each cache of i8 and no others, accumulated in f32 and without gpu_tile}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) scales(%s, %s : memref<?x2x8xf32>, memref<?x2x8xf32>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 1 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c12: scales of values alone
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xi8> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xi8> {kernel.access = #kernel.access<read>}, %s: memref<?x2x8xf32> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected scales [pages, 2, 8] of f32 for each cache of i8 and no others, accumulated in f32 and without gpu_tile}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xi8>)
      v(%v : memref<?x2x8x16xi8>) scales(%s : memref<?x2x8xf32>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 1 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c12: shape
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xi8> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xi8> {kernel.access = #kernel.access<read>}, %s: memref<?x2x4xf32> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected scales [pages, 2, 8] of f32 for each cache of i8 and no others, accumulated in f32 and without gpu_tile}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xi8>)
      v(%v : memref<?x2x8x16xi8>) scales(%s, %s : memref<?x2x4xf32>, memref<?x2x4xf32>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 1 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
  }
  kernel.return
}

// -----

// attention_c12: f64
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xi8> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xi8> {kernel.access = #kernel.access<read>}, %s: memref<?x2x8xf32> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected scales [pages, 2, 8] of f32 for each cache of i8 and no others, accumulated in f32 and without gpu_tile}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xi8>)
      v(%v : memref<?x2x8x16xi8>) scales(%s, %s : memref<?x2x8xf32>, memref<?x2x8xf32>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 1 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f64
  }
  kernel.return
}

// -----

// attention_c13
kernel.func @k(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>}, %k: memref<?x2x16x8xbf16> {kernel.access = #kernel.access<read>},
               %v: memref<?x2x8x16xbf16> {kernel.access = #kernel.access<read>}, %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
               %i: memref<?xi32> {kernel.access = #kernel.access<read>}, %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected head_parts that divide 2 heads, without gpu_tile, got 3 : i64}}
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%i, %i, %i, %page_table : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 1 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32 {head_parts = 3 : i64}
  }
  kernel.return
}
