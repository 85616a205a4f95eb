// RUN: gemma-opt %s --gemma-lower-kernels-to-host=isa=avx2 --canonicalize --cse | FileCheck %s
// RUN: gemma-opt %s --gemma-lower-kernels-to-host=isa=avx512 | FileCheck %s --check-prefix=WIDE

// A reduction has four accumulators and a pairwise sum of lanes; what is computed from it is scalar.
// The store loop takes whole registers.

// CHECK-LABEL: func.func @norm(
// CHECK-SAME: %{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr)
// CHECK-SAME: gemma.scratch_bytes = 0
// CHECK: %{{.*}}:4 = scf.for
// CHECK: vector.load {{.*}} vector<8xf32>
// CHECK: vector.shuffle {{.*}} [4, 5, 6, 7]
// CHECK: math.sqrt {{.*}} : f32
// CHECK: scf.for
// CHECK: vector.store {{.*}} vector<8xf32>
// CHECK-NOT: kernel.
// WIDE: vector.store {{.*}} vector<16xf32>
kernel.func @norm(%x: memref<?x96xf32> {kernel.access = #kernel.access<read>},
                  %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 1)> extent <T>
      ins(%x : memref<?x96xf32>) outs(%y : memref<?x96xf32>)
      maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
    ^bb0(%r: tensor<96xf32>):
      %sq = arith.mulf %r, %r : tensor<96xf32>
      %ss = kernel.reduce add %sq : tensor<96xf32>
      %i = math.rsqrt %ss : f32
      %s = tensor.splat %i : tensor<96xf32>
      %n = arith.mulf %r, %s : tensor<96xf32>
      kernel.yield %n : tensor<96xf32>
    }
  }
  kernel.return
}

// bf16 is i16 in memory; the last elements take half a register each time. A transposed output is
// stored element by element.

// CHECK-LABEL: func.func @transpose(
// CHECK: vector.load {{.*}} : memref<?x10xi16>, vector<8xi16>
// CHECK: arith.extui {{.*}} : vector<8xi16> to vector<8xi32>
// CHECK: arith.shli
// CHECK: memref.store {{.*}} : memref<?x10x16xf32>
// CHECK: vector.load {{.*}} : memref<?x10xi16>, vector<2xi16>
kernel.func @transpose(%x: memref<?x10xbf16> {kernel.access = #kernel.access<read>},
                       %y: memref<?x10x16xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (1)> {
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T> once
    ins(%x : memref<?x10xbf16>) outs(%y : memref<?x10x16xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t floordiv 16, e, t mod 16)>] {
  ^bb0(%r: tensor<10xf32>):
    kernel.yield %r : tensor<10xf32>
  }
  kernel.return
}
