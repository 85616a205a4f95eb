// RUN: gemma-opt %s --gemma-emit-ptx -o /dev/null | FileCheck %s

// Rounds of a 64-bit maximum over the block.

// CHECK-LABEL: .entry top(
// CHECK: ld.global.v4
// CHECK: shfl.sync.bfly.b32
// CHECK: max.u64
// CHECK: bar.sync
// CHECK: st.global.b32
// CHECK-NOT: .local
kernel.func @top(%x: memref<?x512xf32> {kernel.access = #kernel.access<read>},
                 %values: memref<?x4xf32> {kernel.access = #kernel.access<write>},
                 %ids: memref<?x4xi32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (R)>
    attributes {launch = #kernel.launch<threads = 128, shared = 256>} {
  kernel.grid %j {
    kernel.topk block %j ins(%x : memref<?x512xf32>)
      outs(%values, %ids : memref<?x4xf32>, memref<?x4xi32>) k 4
  }
  kernel.return
}

// Over the keys that a contraction's blocks left: a word of eight bytes a tile, and one entry of the row.

// CHECK-LABEL: .entry largest(
// CHECK: ld.global.b64
// CHECK: max.u64
// CHECK: shfl.sync.bfly.b32
// CHECK: ld.global.b32
// CHECK-NOT: .local
kernel.func @largest(%x: memref<?x512xf32> {kernel.access = #kernel.access<read>},
                     %best: memref<?x8x2xi32> {kernel.access = #kernel.access<read>},
                     %values: memref<?x1xf32> {kernel.access = #kernel.access<write>},
                     %ids: memref<?x1xi32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (R)>
    attributes {launch = #kernel.launch<threads = 128, shared = 256>} {
  kernel.grid %j {
    kernel.topk block %j ins(%x : memref<?x512xf32>) best(%best : memref<?x8x2xi32>)
      outs(%values, %ids : memref<?x1xf32>, memref<?x1xi32>) k 1
  }
  kernel.return
}
