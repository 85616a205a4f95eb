// Projections are packed, gate and up alternate where GeGLU is in their group, a tied table is packed
// like a projection, norms stay plain; a ring holds window + max_chunk - 1 positions in whole pages.
// RUN: gemma-opt %S/Inputs/layer.mlir --gemma-phase-import --gemma-phase-optimize="max-chunk=20" --gemma-plan-storage | FileCheck %s
// RUN: gemma-opt %S/Inputs/layer.mlir --gemma-phase-import --gemma-phase-optimize="fusion=false" --gemma-plan-storage | FileCheck %s --check-prefix=UNFUSED
// RUN: gemma-opt %S/Inputs/layer.mlir --gemma-phase-import --gemma-phase-optimize="family=cuda" --gemma-plan-storage | FileCheck %s --check-prefix=CUDA
// RUN: gemma-opt %S/Inputs/layer.mlir --gemma-phase-import --gemma-phase-optimize="max-chunk=1" --gemma-plan-storage | FileCheck %s --check-prefix=RING
// RUN: gemma-opt %S/Inputs/layer.mlir --gemma-phase-import --gemma-phase-optimize="max-chunk=1 family=cuda" --gemma-plan-storage | FileCheck %s --check-prefix=CUDA-RING

// CHECK: program.table @angles0 theta 1.000000e+04 denom 8 active 4 elem f32
// CHECK: program.weight @norm {{.*}} layout <panel = 0, kpack = 1, interleave = 1> packed memref<32xf32>
// CHECK: program.weight @qkv {{.*}} layout <panel = 16, kpack = 2, interleave = 1> packed memref<2x16x16x2xbf16>
// CHECK: program.weight @gate_up {{.*}} layout <panel = 16, kpack = 2, interleave = 2> packed memref<6x16x16x2xbf16>
// CHECK: program.weight @table {{.*}} layout <panel = 16, kpack = 2, interleave = 1> packed memref<4x16x16x2xbf16>
// CHECK: program.cache @c0 {{.*}} {ring_pages = 3 : i64}

// UNFUSED: program.weight @gate_up {{.*}} layout <panel = 16, kpack = 2, interleave = 1>

// For tensor cores: k blocks of 64, panels of 8 rows.
// CUDA: program.weight @norm {{.*}} layout <panel = 0, kpack = 1, interleave = 1> packed memref<32xf32>
// CUDA: program.weight @qkv {{.*}} layout <panel = 8, kpack = 64, interleave = 1> packed memref<1x4x8x64xbf16>
// CUDA: program.weight @gate_up {{.*}} layout <panel = 8, kpack = 64, interleave = 2> packed memref<1x12x8x64xbf16>
// CUDA: program.weight @table {{.*}} layout <panel = 8, kpack = 64, interleave = 1> packed memref<1x{{[0-9]+}}x8x64xbf16>

// A window of 16 lies in up to two pages: while one block appends to one of them, others read theirs.
// RING: program.cache @c0 {{.*}} {ring_pages = 1 : i64}
// CUDA-RING: program.cache @c0 {{.*}} {ring_pages = 2 : i64}
