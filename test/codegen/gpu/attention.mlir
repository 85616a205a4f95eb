// RUN: gemma-opt %s --gemma-emit-ptx -o /dev/null | FileCheck %s
// RUN: gemma-opt %s --gemma-emit-ptx -o /dev/null | FileCheck %s --check-prefix=NEVER
// NEVER-NOT: {{\.local|ld\.global\.nc|[[:space:]]call}}

// Decode: 4 query heads of a KV head are rows of one 16-row tile; pages found through the page table.

// CHECK-LABEL: .entry decode(
// CHECK-DAG: cp.async.cg.shared.global
// CHECK-DAG: cp.async.wait_group 3
// CHECK-DAG: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK-DAG: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-DAG: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-DAG: ex2.approx
// CHECK-DAG: mma.sync.aligned.m16n8k16
// CHECK-DAG: st.global.v4
kernel.func @decode(%q: memref<?x8x64xbf16> {kernel.access = #kernel.access<read>},
                    %k: memref<?x2x64x16xbf16> {kernel.access = #kernel.access<read>},
                    %v: memref<?x2x16x64xbf16> {kernel.access = #kernel.access<read>},
                    %o: memref<?x8x64xbf16> {kernel.access = #kernel.access<write>},
                    %row_starts: memref<?xi32> {kernel.access = #kernel.access<read>},
                    %seq_lens: memref<?xi32> {kernel.access = #kernel.access<read>},
                    %slots: memref<?xi32> {kernel.access = #kernel.access<read>},
                    %page_table: memref<?x32xi32> {kernel.access = #kernel.access<read>})
    grid affine_map<()[T, B, Q, S, R] -> (2 * B)>
    attributes {launch = #kernel.launch<threads = 128, shared = 49152>} {
  kernel.grid %j {
    kernel.attention block %j q(%q : memref<?x8x64xbf16>) k(%k : memref<?x2x64x16xbf16>)
      v(%v : memref<?x2x16x64xbf16>) out(%o : memref<?x8x64xbf16>)
      batch(%row_starts, %seq_lens, %slots, %page_table
            : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x32xi32>)
      query_tile 1 window 0 scale 1.0 paging <page = 16, ring = 0> accumulate f32
      {gpu_tile = #kernel.flash<keys = 64, stages = 2>}
  }
  kernel.return
}

// Prefill over a ring with a window: 16 queries of 2 heads, f32 in and out, one stage.

// CHECK-LABEL: .entry prefill(
// CHECK-DAG: cp.async.wait_group 1
// CHECK-DAG: mma.sync.aligned.m16n8k16
// CHECK-DAG: st.global.v2.b32
kernel.func @prefill(%q: memref<?x4x32xf32> {kernel.access = #kernel.access<read>},
                     %k: memref<?x2x32x16xbf16> {kernel.access = #kernel.access<read>},
                     %v: memref<?x2x16x32xbf16> {kernel.access = #kernel.access<read>},
                     %o: memref<?x4x32xf32> {kernel.access = #kernel.access<write>},
                     %row_starts: memref<?xi32> {kernel.access = #kernel.access<read>},
                     %seq_lens: memref<?xi32> {kernel.access = #kernel.access<read>},
                     %slots: memref<?xi32> {kernel.access = #kernel.access<read>},
                     %page_table: memref<?x32xi32> {kernel.access = #kernel.access<read>})
    grid affine_map<()[T, B, Q, S, R] -> (2 * (T floordiv 16 + B))>
    attributes {launch = #kernel.launch<threads = 128, shared = 49152>} {
  kernel.grid %j {
    kernel.attention block %j q(%q : memref<?x4x32xf32>) k(%k : memref<?x2x32x16xbf16>)
      v(%v : memref<?x2x16x32xbf16>) out(%o : memref<?x4x32xf32>)
      batch(%row_starts, %seq_lens, %slots, %page_table
            : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x32xi32>)
      query_tile 16 window 64 scale 1.0 paging <page = 16, ring = 36> accumulate f32
      {gpu_tile = #kernel.flash<keys = 32, stages = 1>}
  }
  kernel.return
}
