// RUN: gemma-opt %s --gemma-emit-ptx -o /dev/null | FileCheck %s
// RUN: gemma-opt %s --gemma-emit-ptx -o /dev/null | FileCheck %s --check-prefix=NEVER
// NEVER-NOT: {{\.local|ld\.global\.nc|[[:space:]]call}}

// A tile of 64 rows by 32 tokens, four warps: weights and activations in a ring of four steps, mma on
// registers from ldmatrix, results 16 bytes at a time.

// CHECK-LABEL: .entry plain(
// CHECK-DAG: .maxntid 128
// CHECK-DAG: cp.async.cg.shared.global
// CHECK-DAG: cp.async.commit_group
// CHECK-DAG: cp.async.wait_group 2
// CHECK-DAG: bar.sync
// CHECK-DAG: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK-DAG: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-DAG: cp.async.wait_group 0
// CHECK-DAG: cvt.rn.bf16
// CHECK-DAG: st.global.v4
kernel.func @plain(%x: memref<?x256xbf16> {kernel.access = #kernel.access<read>},
                   %w: memref<4x16x8x64xbf16> {kernel.access = #kernel.access<read>},
                   %y: memref<?x128xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (2 * ((T + 31) floordiv 32))>
    attributes {launch = #kernel.launch<threads = 128, shared = 49152>} {
  kernel.grid %j {
    kernel.contract block %j act(%x : memref<?x256xbf16>) weight(%w : memref<4x16x8x64xbf16>)
      out(%y : memref<?x128xbf16>) extent <T> panels 1 row_tile 1
      attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 32, k = 64, stages = 4>} {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
  }
  kernel.return
}

// Gate and up in the two halves of a lane's sums; tanh from ex2 and no library. Activations whose rows
// are not aligned go through registers.

// CHECK-LABEL: .entry geglu(
// CHECK-DAG: st.shared.v4
// CHECK-DAG: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK-DAG: mma.sync.aligned.m16n8k16
// CHECK-DAG: ex2.approx
// CHECK-DAG: div.approx
kernel.func @geglu(%x: memref<?x63xbf16> {kernel.access = #kernel.access<read>},
                   %w: memref<1x26x8x64xbf16> {kernel.access = #kernel.access<read>},
                   %y: memref<?x98xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (4 * ((T + 7) floordiv 8))>
    attributes {launch = #kernel.launch<threads = 64, shared = 49152>} {
  kernel.grid %j {
    kernel.contract block %j act(%x : memref<?x63xbf16>) weight(%w : memref<1x26x8x64xbf16>)
      out(%y : memref<?x98xbf16>) extent <T> panels 1 row_tile 1 pair
      attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 3>} {
    ^bb0(%gate: f32, %up: f32):
      %t = math.tanh %gate : f32
      %g = arith.mulf %t, %up : f32
      kernel.yield %g : f32
    }
  }
  kernel.return
}

// f32 results of selected rows, steps of two k-blocks of which the last is half empty.

// CHECK-LABEL: .entry head(
// CHECK-DAG: mma.sync.aligned.m16n8k16
// CHECK-DAG: st.global.v4
kernel.func @head(%x: memref<?x192xbf16> {kernel.access = #kernel.access<read>},
                  %w: memref<3x32x8x64xbf16> {kernel.access = #kernel.access<read>},
                  %y: memref<?x256xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (2 * ((R + 15) floordiv 16))>
    attributes {launch = #kernel.launch<threads = 128, shared = 110592>} {
  kernel.grid %j {
    kernel.contract block %j act(%x : memref<?x192xbf16>) weight(%w : memref<3x32x8x64xbf16>)
      out(%y : memref<?x256xf32>) extent <R> panels 1 row_tile 1
      attributes {gpu_tile = #kernel.mma<rows = 128, tokens = 16, k = 128, stages = 3>} {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
  }
  kernel.return
}

// Runs of steps over tiles: parts of a tile in memory, a ticket between two fences, and the sums of the
// last block from memory that others wrote.

// CHECK-LABEL: .entry stream(
// CHECK: st.global.v4.b32
// CHECK: bar.sync
// CHECK: fence.acq_rel.gpu
// CHECK: atom.global.inc.u32
// CHECK: fence.acq_rel.gpu
// CHECK: bar.sync
// CHECK: ld.global.v4.b32
kernel.func @stream(%x: memref<?x256xbf16> {kernel.access = #kernel.access<read>},
                    %w: memref<4x16x8x64xbf16> {kernel.access = #kernel.access<read>},
                    %y: memref<?x128xbf16> {kernel.access = #kernel.access<write>},
                    %p: memref<6x512xf32> {kernel.access = #kernel.access<readwrite>},
                    %t: memref<3xi32> {kernel.access = #kernel.access<readwrite>})
    grid affine_map<()[T, B, Q, S, R] -> (3)>
    attributes {launch = #kernel.launch<threads = 128, shared = 49152>} {
  kernel.grid %j {
    kernel.contract block %j act(%x : memref<?x256xbf16>) weight(%w : memref<4x16x8x64xbf16>)
      out(%y : memref<?x128xbf16>) partials(%p : memref<6x512xf32>) tickets(%t : memref<3xi32>)
      extent <T> panels 1 row_tile 1
      attributes {gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 4, segments = 3>} {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
  }
  kernel.return
}
