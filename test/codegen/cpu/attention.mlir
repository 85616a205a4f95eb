// RUN: gemma-opt %s --gemma-lower-kernels-to-host=isa=avx2 | FileCheck %s

// Scores of four rows against a page of 16 keys at once, whose bf16 are widened by a shift and a mask;
// then per row the maximum and the masked weights; then four rows take the visible values. Scratch:
// scores and outputs of a tile, maxima, sums and corrections.

// CHECK-LABEL: func.func @attention(
// CHECK-SAME: gemma.scratch_bytes = 10944
// CHECK: %{{.*}}:4 = scf.for
// CHECK: scf.if
// CHECK: %{{.*}}:8 = scf.for
// CHECK: vector.load {{.*}} memref<?x2x16x16xi16>, vector<16xi16>
// CHECK: vector.bitcast {{.*}} vector<16xi16> to vector<8xi32>
// CHECK: arith.shli
// CHECK: arith.andi
// CHECK: arith.select {{.*}} vector<8xi1>, vector<8xf32>
// CHECK: arith.divf
// CHECK: vector.store {{.*}} memref<?x4x16xf32>, vector<8xf32>
kernel.func @attention(%q: memref<?x4x16xf32> {kernel.access = #kernel.access<read>},
                       %k: memref<?x2x16x16xbf16> {kernel.access = #kernel.access<read>},
                       %v: memref<?x2x16x16xbf16> {kernel.access = #kernel.access<read>},
                       %o: memref<?x4x16xf32> {kernel.access = #kernel.access<write>},
                       %row_starts: memref<?xi32> {kernel.access = #kernel.access<read>},
                       %seq_lens: memref<?xi32> {kernel.access = #kernel.access<read>},
                       %slots: memref<?xi32> {kernel.access = #kernel.access<read>},
                       %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>})
    grid affine_map<()[T, B, Q, S, R] -> ((T floordiv 4 + B) * 2)> {
  kernel.grid %j {
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x16xbf16>)
      v(%v : memref<?x2x16x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%row_starts, %seq_lens, %slots, %page_table
            : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 4 window 8 scale 1.0 paging <page = 16, ring = 2> accumulate f32
  }
  kernel.return
}

// Keys made from values: the rotated lanes of a tile's keys are made once; scores of four queries and
// two keys at a time are rows times rows, whose lanes are added at the end.

// CHECK-LABEL: func.func @values_alone(
// CHECK: vector.load {{.*}} memref<?x2x16x32xi16>, vector<8xi16>
// CHECK: %{{.*}}:8 = scf.for
// CHECK: vector.shuffle {{.*}} [0, 9, 2, 11, 4, 13, 6, 15]
// CHECK: arith.select {{.*}} vector<8xi1>, vector<8xf32>
kernel.func @values_alone(%q: memref<?x4x32xf32> {kernel.access = #kernel.access<read>},
                          %v: memref<?x2x16x32xbf16> {kernel.access = #kernel.access<read>},
                          %w: memref<32xf32> {kernel.access = #kernel.access<read>},
                          %cos_hi: memref<512x8xf32> {kernel.access = #kernel.access<read>},
                          %sin_hi: memref<512x8xf32> {kernel.access = #kernel.access<read>},
                          %cos_lo: memref<512x8xf32> {kernel.access = #kernel.access<read>},
                          %sin_lo: memref<512x8xf32> {kernel.access = #kernel.access<read>},
                          %o: memref<?x4x32xf32> {kernel.access = #kernel.access<write>},
                          %row_starts: memref<?xi32> {kernel.access = #kernel.access<read>},
                          %seq_lens: memref<?xi32> {kernel.access = #kernel.access<read>},
                          %slots: memref<?xi32> {kernel.access = #kernel.access<read>},
                          %page_table: memref<?x4xi32> {kernel.access = #kernel.access<read>})
    grid affine_map<()[T, B, Q, S, R] -> ((T floordiv 4 + B) * 2)> {
  kernel.grid %j {
    kernel.attention block %j q(%q : memref<?x4x32xf32>)
      keys_of_values(%w, %cos_hi, %sin_hi, %cos_lo, %sin_lo
            : memref<32xf32>, memref<512x8xf32>, memref<512x8xf32>, memref<512x8xf32>, memref<512x8xf32>) rot 32
      v(%v : memref<?x2x16x32xbf16>) out(%o : memref<?x4x32xf32>)
      batch(%row_starts, %seq_lens, %slots, %page_table
            : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 4 window 0 scale 1.0 paging <page = 16, ring = 0> accumulate f32
  }
  kernel.return
}

// One token: of 16 query heads a block has 8. A page of keys is turned and multiplied with all of them before
// the next; columns of values are copied once for both pieces of four heads; and while those are added up,
// the next tile is fetched into L2.

// CHECK-LABEL: func.func @decode(
// CHECK: memref.prefetch {{.*}}, read, locality<3>, data : memref<?x1x16x128xi16>
// CHECK: vector.store {{.*}} memref<64x64xi16>, vector<16xi16>
// CHECK-NOT: memref.prefetch
// CHECK: %{{.*}}:8 = scf.for
// CHECK: memref.prefetch {{.*}}, read, locality<2>, data : memref<?x1x16x128xi16>
// CHECK: vector.load {{.*}} memref<64x64xi16>, vector<16xi16>
kernel.func @decode(%q: memref<?x16x128xf32> {kernel.access = #kernel.access<read>},
                    %v: memref<?x1x16x128xbf16> {kernel.access = #kernel.access<read>},
                    %w: memref<128xf32> {kernel.access = #kernel.access<read>},
                    %cos_hi: memref<512x8xf32> {kernel.access = #kernel.access<read>},
                    %sin_hi: memref<512x8xf32> {kernel.access = #kernel.access<read>},
                    %cos_lo: memref<512x8xf32> {kernel.access = #kernel.access<read>},
                    %sin_lo: memref<512x8xf32> {kernel.access = #kernel.access<read>},
                    %o: memref<?x16x128xf32> {kernel.access = #kernel.access<write>},
                    %row_starts: memref<?xi32> {kernel.access = #kernel.access<read>},
                    %seq_lens: memref<?xi32> {kernel.access = #kernel.access<read>},
                    %slots: memref<?xi32> {kernel.access = #kernel.access<read>},
                    %page_table: memref<?x64xi32> {kernel.access = #kernel.access<read>})
    grid affine_map<()[T, B, Q, S, R] -> (B * 2)> {
  kernel.grid %j {
    kernel.attention block %j q(%q : memref<?x16x128xf32>)
      keys_of_values(%w, %cos_hi, %sin_hi, %cos_lo, %sin_lo
            : memref<128xf32>, memref<512x8xf32>, memref<512x8xf32>, memref<512x8xf32>, memref<512x8xf32>) rot 128
      v(%v : memref<?x1x16x128xbf16>) out(%o : memref<?x16x128xf32>)
      batch(%row_starts, %seq_lens, %slots, %page_table
            : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x64xi32>)
      query_tile 1 window 0 scale 1.0 paging <page = 16, ring = 0> accumulate f32 {head_parts = 2 : i64}
  }
  kernel.return
}
