// RUN: gemma-opt %s --gemma-lower-kernels-to-host=isa=avx2 | FileCheck %s
// RUN: gemma-opt %s --gemma-lower-kernels-to-host=isa=baseline | FileCheck %s --check-prefix=SSE
// RUN: gemma-opt %s --gemma-lower-kernels-to-host=isa=avx512vnni | FileCheck %s --check-prefix=VNNI

// Products of integers by what the instruction set has. A tile of four rows and two registers of columns
// loops over the lines of a group with its sums; scales are read ahead like weights.

// Codes are rounded by a sum in f32; the group's largest magnitude is that of the bits.
// CHECK-LABEL: func.func @nibbles(
// CHECK: vector.reduction <maxsi>
// CHECK: arith.divf
// CHECK: arith.addf {{.*}} vector<8xf32>
// CHECK: %{{.*}}:8 = scf.for
// CHECK: memref.prefetch {{.*}} read, locality<2>, data : memref<2x2x4x16x4xi8>
// CHECK: memref.prefetch {{.*}} read, locality<2>, data : memref<2x2x16xi16>
// CHECK: %{{.*}}:8 = scf.for {{.*}} -> (vector<16xi16>
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
