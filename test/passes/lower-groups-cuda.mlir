// For CUDA devices every kernel says its threads and shared memory, nothing is hoisted, projections
// compute tiles on tensor cores from weights laid out for them, and a tied table is gathered from
// through the swizzle.
// RUN: gemma-opt %S/Inputs/layer.mlir --gemma-phase-import --gemma-phase-optimize="family=cuda max-chunk=20" --gemma-phase-lower | FileCheck %s

// CHECK-LABEL: program.variant @decode_1 target "cuda"
// CHECK-LABEL: program.variant @prefill target "cuda"

// CHECK-LABEL: kernel.func @embed_
// CHECK-SAME: launch = #kernel.launch<threads = 256, shared = 0>
// CHECK: kernel.rows block {{.*}} ins(%arg0 : memref<1x8x8x64xbf16>) {{.*}}swizzled = array<i64: 0>

// A norm reduces over its block.
// CHECK-LABEL: kernel.func @rmsnorm_
// CHECK-SAME: launch = #kernel.launch<threads = 256, shared = 128>

// Decode: one tile of 8 tokens, 64 rows of weights. The ring of 2 stages is the shared memory: there is
// one step.
// CHECK-LABEL: kernel.func @linear_
// CHECK-SAME: launch = #kernel.launch<threads = 128, shared = 18432>
// CHECK-NOT: kernel.scratch
// CHECK: kernel.grid
// CHECK-NEXT: kernel.contract {{.*}} weight(%arg1 : memref<1x4x8x64xbf16>) {{.*}}gpu_tile = #kernel.mma<rows = 64, tokens = 8, k = 64, stages = 2>

// CHECK-LABEL: kernel.func @gqa_
// CHECK: kernel.attention {{.*}} query_tile 1 {{.*}}gpu_tile = #kernel.flash<keys = 64, stages = 2, splits = 2>

// CHECK-LABEL: kernel.func @linear__gelu_mul_
// CHECK: kernel.contract {{.*}} pair attributes {gpu_tile

// Prefill: 64 tokens a block, up to 64 rows of queries and heads.
// CHECK: kernel.contract {{.*}}gpu_tile = #kernel.mma<rows = 64, tokens = 64, k = 64, stages = 4>
// CHECK: kernel.attention {{.*}} query_tile 32
