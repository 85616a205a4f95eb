// RUN: gemma-opt %s --gemma-lower-kernels-to-host=isa=avx2 | FileCheck %s
// RUN: gemma-opt %s --gemma-lower-kernels-to-host=isa=baseline | FileCheck %s --check-prefix=SSE

// Register tiles: 12 accumulators of the 16 registers, multiply and add fused; without FMA apart. One
// row at the end takes a tile of its own. Weights are fetched 8 KiB ahead.

// CHECK-LABEL: func.func @gemm(
// CHECK: %{{.*}}:12 = scf.for
// CHECK: memref.prefetch {{.*}} read, locality<3>, data
// CHECK: vector.load {{.*}} memref<4x64x16xf32>, vector<8xf32>
// CHECK: math.fma {{.*}} vector<8xf32>
// CHECK: arith.maximumf
// CHECK: vector.store {{.*}} memref<?x64xf32>, vector<8xf32>
// SSE-LABEL: func.func @gemm(
// SSE-NOT: math.fma
// SSE: arith.mulf {{.*}} vector<4xf32>
// SSE: arith.addf {{.*}} vector<4xf32>
kernel.func @gemm(%x: memref<?x64xf32> {kernel.access = #kernel.access<read>},
                  %w: memref<4x64x16xf32> {kernel.access = #kernel.access<read>},
                  %y: memref<?x64xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (2)> {
  kernel.grid %j {
    kernel.contract block %j act(%x : memref<?x64xf32>) weight(%w : memref<4x64x16xf32>)
      out(%y : memref<?x64xf32>) extent <T> panels 2 row_tile 8 {
    ^bb0(%s: f32):
      %z = arith.constant 0.0 : f32
      %r = arith.maximumf %s, %z : f32
      kernel.yield %r : f32
    }
  }
  kernel.return
}

// Pairs of bf16 are split by shift and mask; an odd depth leaves one k for the end.

// CHECK-LABEL: func.func @odd(
// CHECK: vector.load {{.*}} memref<2x4x16x2xi16>, vector<16xi16>
// CHECK: vector.bitcast {{.*}} : vector<16xi16> to vector<8xi32>
// CHECK-DAG: arith.shli {{.*}} vector<8xi32>
// CHECK-DAG: arith.andi {{.*}} vector<8xi32>
kernel.func @odd(%x: memref<?x7xf32> {kernel.access = #kernel.access<read>},
                 %w: memref<2x4x16x2xbf16> {kernel.access = #kernel.access<read>},
                 %y: memref<?x16xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (1)> {
  kernel.grid %j {
    kernel.contract block %j act(%x : memref<?x7xf32>) weight(%w : memref<2x4x16x2xbf16>)
      out(%y : memref<?x16xf32>) extent <R> panels 2 row_tile 1 pair {
    ^bb0(%g: f32, %u: f32):
      %r = arith.mulf %g, %u : f32
      kernel.yield %r : f32
    }
  }
  kernel.return
}

// Many rows go in blocks: up to 4 directly, others with activations and weights widened in scratch, 6 rows
// by two registers at a time, or 3 of them; sums are loaded, added to and stored for each block of 256 k.

// CHECK-LABEL: func.func @blocked(
// CHECK: arith.cmpi slt, {{.*}}, %c5
// CHECK: %{{.*}}:8 = scf.for
// CHECK: vector.store {{.*}} memref<132x32xf32>, vector<8xf32>
// CHECK: memref.prefetch {{.*}} : memref<?x512xi16>
// CHECK: vector.store {{.*}} memref<132x272xf32>, vector<8xf32>
// CHECK: vector.store {{.*}} memref<2x256x16xf32>, vector<8xf32>
// CHECK: memref.prefetch {{.*}} : memref<4x256x16x2xi16>
// CHECK-COUNT-12: vector.load {{.*}} memref<132x32xf32>, vector<8xf32>
// CHECK: %{{.*}}:12 = scf.for
// CHECK-NOT: arith.shli
// CHECK: math.fma {{.*}} vector<8xf32>
// CHECK: %{{.*}}:6 = scf.for
// CHECK: arith.maximumf
// SSE-LABEL: func.func @blocked(
// SSE: vector.store {{.*}} memref<2x256x16xf32>, vector<4xf32>
kernel.func @blocked(%x: memref<?x512xbf16> {kernel.access = #kernel.access<read>},
                     %w: memref<4x256x16x2xbf16> {kernel.access = #kernel.access<read>},
                     %y: memref<?x64xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (2)> {
  kernel.grid %j {
    kernel.contract block %j act(%x : memref<?x512xbf16>) weight(%w : memref<4x256x16x2xbf16>)
      out(%y : memref<?x64xbf16>) extent <T> panels 2 row_tile 132 {
    ^bb0(%s: f32):
      %z = arith.constant 0.0 : f32
      %r = arith.maximumf %s, %z : f32
      kernel.yield %r : f32
    }
  }
  kernel.return
}
