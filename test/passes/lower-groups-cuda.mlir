// For CUDA devices every kernel says its threads and shared memory, decode prepares normed rows in the
// blocks of projections, which compute tiles on tensor cores from weights laid out for them, and a tied table is gathered from
// through the swizzle.
// RUN: gemma-opt %S/Inputs/layer.mlir --gemma-phase-import --gemma-phase-optimize="family=cuda max-chunk=20" --gemma-phase-lower | FileCheck %s

// CHECK-LABEL: program.variant @decode_1 target "cuda"
// CHECK-NOT: program.launch @rmsnorm
// CHECK-LABEL: program.variant @prefill target "cuda"
// CHECK: program.launch @rmsnorm

// CHECK-LABEL: kernel.func @embed_
// CHECK-SAME: launch = #kernel.launch<threads = 256, shared = 0>
// CHECK: kernel.rows block {{.*}} ins(%arg0 : memref<1x8x8x64xbf16>) {{.*}}swizzled = array<i64: 0>

// Decode: one tile of 8 tokens, 64 rows of weights. The ring of 2 stages, as there is one step, is the
// shared memory, with the normed token, whose columns beyond 32 are zero, and a word for every warp of
// the norm's sum.
// CHECK-LABEL: kernel.func @linear_
// CHECK-SAME: launch = #kernel.launch<threads = 128, shared = 16640>
// CHECK: %[[ACT:.*]] = kernel.scratch : memref<1x1x64xbf16>
// CHECK-NEXT: kernel.rows domain {{.*}} outs(%[[ACT]] : memref<1x1x64xbf16>) {{.*}}swizzled = array<i64: 2>
// CHECK: kernel.reduce add
// CHECK: tensor.insert_slice {{.*}} : tensor<32xf32> into tensor<64xf32>
// CHECK: kernel.grid
// CHECK-NEXT: kernel.contract {{.*}} act(%[[ACT]] : memref<1x1x64xbf16>) weight(%arg2 : memref<1x4x8x64xbf16>) {{.*}}gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 2>

// CHECK-LABEL: kernel.func @gqa_
// CHECK: kernel.attention {{.*}} query_tile 1 {{.*}}gpu_tile = #kernel.flash<keys = 64, stages = 2, splits = 2>

// Another launch made its activations.
// CHECK-LABEL: kernel.func @linear_
// CHECK-SAME: launch = #kernel.launch<threads = 128, shared = 18432>
// CHECK-NOT: kernel.scratch
// CHECK: kernel.grid
// CHECK-NEXT: kernel.contract {{.*}} weight(%arg1 : memref<1x4x8x64xbf16>) {{.*}}gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 2>

// CHECK-LABEL: kernel.func @linear__gelu_mul_
// CHECK: kernel.contract {{.*}} pair attributes {gpu_tile

// Prefill: 64 tokens a block, up to 64 rows of queries and heads.
// CHECK: kernel.contract {{.*}}gpu_tile = #kernel.mma<rows = 64, tokens = 64, k = 64, stages = 4>
// CHECK: kernel.attention {{.*}} query_tile 32
