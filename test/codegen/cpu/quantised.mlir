// RUN: gemma-opt %s --gemma-lower-kernels-to-host=isa=avx2 | FileCheck %s
// RUN: gemma-opt %s --gemma-lower-kernels-to-host=isa=baseline | FileCheck %s --check-prefix=SSE
// RUN: gemma-opt %s --gemma-lower-kernels-to-host=isa=avx512vnni | FileCheck %s --check-prefix=VNNI

// Products of integers by what the instruction set has. A tile of four rows and two registers of columns
// loops over the lines of a group with its sums; scales are fetched a group at a time, weights by lines.

// Codes are rounded by a sum in f32; the group's largest magnitude is that of the bits.
// CHECK-LABEL: func.func @nibbles(
// CHECK: vector.reduction <maxsi>
// CHECK: arith.divf
// CHECK: arith.addf {{.*}} vector<8xf32>
// CHECK: %{{.*}}:8 = scf.for
// CHECK: memref.prefetch {{.*}} read, locality<3>, data : memref<2x2x16xi16>
// CHECK: %{{.*}}:8 = scf.for {{.*}} -> (vector<16xi16>
// CHECK: memref.prefetch {{.*}} read, locality<3>, data : memref<2x2x4x16x4xi8>
// CHECK: llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"
// CHECK: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// CHECK: math.fma {{.*}} vector<8xf32>

// Without byte products everything is pairs of 16 bits, which 8-bit codes are expanded to.
// SSE-LABEL: func.func @nibbles(
// SSE-NOT: pmadd.ub
// SSE: vector.store {{.*}} memref<8x64xi16>, vector<32xi16>
// SSE: llvm.call_intrinsic "llvm.x86.sse2.pmadd.wd"

// VNNI-LABEL: func.func @nibbles(
// VNNI: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// VNNI-NOT: pmaddubs
kernel.func @nibbles(%x: memref<?x63xf32> {kernel.access = #kernel.access<read>},
                     %w: memref<2x2x4x16x4xi8> {kernel.access = #kernel.access<read>},
                     %ws: memref<2x2x16xf16> {kernel.access = #kernel.access<read>},
                     %y: memref<?x32xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (1)> {
  %c = kernel.scratch : memref<8x64xi8>
  %s = kernel.scratch : memref<8x2xf32>
  %n = kernel.scratch : memref<8x2xi32>
  kernel.quantize ins(%x : memref<?x63xf32>)
    outs(%c, %s, %n : memref<8x64xi8>, memref<8x2xf32>, memref<8x2xi32>) extent <T> zero 8
  kernel.grid %j {
    kernel.contract block %j act(%c : memref<8x64xi8>) weight(%w : memref<2x2x4x16x4xi8>)
      out(%y : memref<?x32xf32>) quantised(%ws, %s, %n : memref<2x2x16xf16>, memref<8x2xf32>, memref<8x2xi32>)
      extent <T> panels 2 row_tile 8 {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
  }
  kernel.return
}

// Many rows go in blocks. Weights come without their offset; where products want bytes, codes take it in
// their place, and a group's sums begin with what the weights make of it; each step is four bytes of
// weights and of activations. Rows are prepared while one 4 rows on is fetched, and have a cache line more
// than their codes.

// CHECK-LABEL: func.func @blocked(
// CHECK: memref.prefetch {{.*}} read, locality<3>, data : memref<?x64xi8>
// CHECK: arith.xori {{.*}} vector<32xi8>
// CHECK: vector.store {{.*}} memref<12x192xi8>, vector<32xi8>
// CHECK: vector.store {{.*}} memref<12x2xf32>, vector<8xf32>
// CHECK: vector.store {{.*}} memref<2x2x16xf32>, vector<8xf32>
// CHECK: arith.subi {{.*}} vector<32xi8>
// CHECK: vector.store {{.*}} memref<4x2x8x64xi8>, vector<32xi8>
// CHECK: llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"
// CHECK: vector.store {{.*}} memref<2x2x16xi32>, vector<8xi32>
// CHECK: %{{.*}}:12 = scf.for {{.*}} -> (vector<8xf32>
// CHECK: vector.load {{.*}} memref<2x2x16xi32>, vector<8xi32>
// CHECK: %{{.*}}:12 = scf.for {{.*}} -> (vector<16xi16>
// CHECK: llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"
// CHECK: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// CHECK-NOT: arith.addi {{.*}} vector<8xi32>
// CHECK: arith.sitofp {{.*}} vector<8xi32> to vector<8xf32>
// SSE-LABEL: func.func @blocked(
// SSE: vector.store {{.*}} memref<12x96xi16>, vector<32xi16>
// SSE: arith.subi {{.*}} vector<8xi16>
// SSE-NOT: memref<2x2x16xi32>
// SSE: llvm.call_intrinsic "llvm.x86.sse2.pmadd.wd"
// VNNI-LABEL: func.func @blocked(
// VNNI: arith.subi {{.*}} vector<64xi8>
// VNNI: vector.store {{.*}} memref<2x2x16xi32>, vector<16xi32>
// VNNI: %{{.*}}:24 = scf.for {{.*}} -> (vector<16xi32>
// VNNI: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
kernel.func @blocked(%c: memref<?x64xi8> {kernel.access = #kernel.access<read>},
                     %s: memref<?x2xf32> {kernel.access = #kernel.access<read>},
                     %n: memref<?x2xi32> {kernel.access = #kernel.access<read>},
                     %w: memref<2x2x4x16x4xi8> {kernel.access = #kernel.access<read>},
                     %ws: memref<2x2x16xf16> {kernel.access = #kernel.access<read>},
                     %y: memref<?x32xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (1)> {
  kernel.grid %j {
    kernel.contract block %j act(%c : memref<?x64xi8>) weight(%w : memref<2x2x4x16x4xi8>)
      out(%y : memref<?x32xf32>) quantised(%ws, %s, %n : memref<2x2x16xf16>, memref<?x2xf32>, memref<?x2xi32>)
      extent <T> panels 2 row_tile 12 {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
  }
  kernel.return
}
