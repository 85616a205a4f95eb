// RUN: gemma-opt %s --gemma-lower-kernels-to-host=isa=avx2 | FileCheck %s

// CHECK-LABEL: func.func @topk(
// CHECK: arith.cmpf ugt, {{.*}} : vector<8xf32>
// CHECK: vector.reduction <or>, {{.*}} : vector<8xi1> into i1
// CHECK: scf.while
kernel.func @topk(%x: memref<?x512xf32> {kernel.access = #kernel.access<read>},
                  %values: memref<?x4xf32> {kernel.access = #kernel.access<write>},
                  %ids: memref<?x4xi32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (R)> {
  kernel.grid %j {
    kernel.topk block %j ins(%x : memref<?x512xf32>)
      outs(%values, %ids : memref<?x4xf32>, memref<?x4xi32>) k 4
  }
  kernel.return
}
