// RUN: gemma-opt %s --gemma-lower-kernels-to-gpu --canonicalize --cse | FileCheck %s
// RUN: gemma-opt %s --gemma-emit-ptx -o /dev/null | FileCheck %s --check-prefix=PTX
// RUN: gemma-opt %s --gemma-emit-ptx=chip=sm_90 -o /dev/null | FileCheck %s --check-prefix=SM90
// SM90: .target sm_90

// A row of the block: one chunk of 8 elements a thread, of f32 in halves that lanes exchange so that
// each access covers whole sectors; two reductions of shuffles and one through shared memory between
// them; the weight is read as data that nobody changes.

// CHECK-LABEL: gpu.module @norm
// CHECK: llvm.mlir.global external @gemma_shared() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
// CHECK: gpu.func @norm(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>) kernel
// CHECK-SAME: known_block_size = array<i32: 128, 1, 1>
// CHECK: scf.if
// CHECK: llvm.load %[[start:.*]] {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: %[[next:.*]] = llvm.getelementptr %[[start]][128] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
// CHECK: llvm.load %[[next]] {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-COUNT-4: nvvm.shfl.sync bfly {{.*}}, %c4_i32
// CHECK: nvvm.shfl.sync bfly
// CHECK: gpu.barrier
// CHECK: llvm.call_intrinsic "llvm.sqrt.f32"
// CHECK: llvm.load {{.*}} invariant {{.*}} -> vector<8xbf16>
// CHECK: llvm.store {{.*}} : vector<8xbf16>, !llvm.ptr<1>

// Line i is what core op i became; the file is the kernel.
// PTX-LABEL: .entry norm(
// PTX: .maxntid 128
// PTX: .loc 1 1 0
// PTX: ld.global.v4
// PTX: shfl.sync.bfly.b32
// PTX: bar.sync
// PTX: ld.global.nc.v4
// PTX: cvt.rn.bf16x2.f32
// PTX: st.global.v4
// PTX: .file 1 "norm"
kernel.func @norm(%x: memref<?x1024xf32> {kernel.access = #kernel.access<read>},
                  %w: memref<1024xbf16> {kernel.access = #kernel.access<read>},
                  %y: memref<?x1024xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)>
    attributes {launch = #kernel.launch<threads = 128, shared = 1024>} {
  kernel.grid %j {
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 1)> extent <T>
      ins(%x, %w : memref<?x1024xf32>, memref<1024xbf16>) outs(%y : memref<?x1024xbf16>)
      maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (e)>,
            affine_map<(t, h, e) -> (t, e)>] {
    ^bb0(%r: tensor<1024xf32>, %g: tensor<1024xf32>):
      %sq = arith.mulf %r, %r : tensor<1024xf32>
      %ss = kernel.reduce add %sq : tensor<1024xf32>
      %q = math.sqrt %ss : f32
      %c1 = arith.constant 1.0 : f32
      %i = arith.divf %c1, %q : f32
      %s = tensor.splat %i : tensor<1024xf32>
      %n = arith.mulf %r, %s : tensor<1024xf32>
      %m = arith.mulf %n, %g : tensor<1024xf32>
      kernel.yield %m : tensor<1024xf32>
    }
  }
  kernel.return
}

// Rows of several heads: one a warp, no barrier within an op and one between two. Scratch is shared
// memory. Halves of a row are computed apart, and a transposed output is stored element by element.

// PTX-LABEL: .entry heads(
// PTX-NOT: ld.global.nc
// PTX: shfl.sync.bfly.b32
// PTX: st.shared
// PTX: .loc 1 2 0
// PTX: bar.sync
// PTX: ld.shared
// PTX: st.global.b16
kernel.func @heads(%x: memref<?x512xbf16> {kernel.access = #kernel.access<read>},
                   %slots: memref<?xi32> {kernel.access = #kernel.access<read>},
                   %y: memref<?x4x128x16xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)>
    attributes {launch = #kernel.launch<threads = 128, shared = 2048>} {
  %s = kernel.scratch : memref<4x128xf32>
  kernel.grid %j {
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 4)> extent <T>
      ins(%x : memref<?x512xbf16>) outs(%s : memref<4x128xf32>)
      maps [affine_map<(t, h, e) -> (t, h * 128 + e)>, affine_map<(t, h, e) -> (h, e)>] {
    ^bb0(%r: tensor<128xf32>):
      %m = kernel.reduce max %r : tensor<128xf32>
      %ms = tensor.splat %m : tensor<128xf32>
      %d = arith.subf %r, %ms : tensor<128xf32>
      kernel.yield %d : tensor<128xf32>
    }
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 4)> extent <T>
      lookup(%slots : memref<?xi32>)
      ins(%s : memref<4x128xf32>) outs(%y : memref<?x4x128x16xbf16>)
      maps [affine_map<(t, h, e, l) -> (h, e)>,
            affine_map<(t, h, e, l) -> (l floordiv 16, h, e, l mod 16)>] {
    ^bb0(%r: tensor<128xf32>):
      %a = tensor.extract_slice %r[0] [64] [1] : tensor<128xf32> to tensor<64xf32>
      %b = tensor.extract_slice %r[64] [64] [1] : tensor<128xf32> to tensor<64xf32>
      %n = arith.negf %b : tensor<64xf32>
      %u = tensor.insert_slice %n into %r[0] [64] [1] : tensor<64xf32> into tensor<128xf32>
      %v = tensor.insert_slice %a into %u[64] [64] [1] : tensor<64xf32> into tensor<128xf32>
      kernel.yield %v : tensor<128xf32>
    }
  }
  kernel.return
}

// A gather from the packed table of a contraction: 16 bytes at a time, the swizzle undone.

// PTX-LABEL: .entry gather(
// PTX: xor.b32
// PTX: ld.global.nc.v4
// PTX: st.global.v4
kernel.func @gather(%table: memref<4x32x8x64xbf16> {kernel.access = #kernel.access<read>},
                    %ids: memref<?xi32> {kernel.access = #kernel.access<read>},
                    %y: memref<?x256xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)>
    attributes {launch = #kernel.launch<threads = 32, shared = 0>} {
  kernel.grid %j {
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 1)> extent <T>
      lookup(%ids : memref<?xi32>)
      ins(%table : memref<4x32x8x64xbf16>) outs(%y : memref<?x256xf32>)
      maps [affine_map<(t, h, e, l) -> (e floordiv 64, l floordiv 8, l mod 8, e mod 64)>,
            affine_map<(t, h, e, l) -> (t, e)>] attributes {swizzled = array<i64: 0>} {
    ^bb0(%r: tensor<256xf32>):
      kernel.yield %r : tensor<256xf32>
    }
  }
  kernel.return
}
