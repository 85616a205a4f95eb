// Fused: one clone a launch sequence, the last without a condition. Unfused: one for all sizes.
// RUN: gemma-opt %s --gemma-make-variants="max-batch=1" | FileCheck %s
// RUN: gemma-opt %s --gemma-make-variants="max-batch=16" | FileCheck %s --check-prefix=BATCH
// RUN: gemma-opt %s --gemma-make-variants="fusion=false" | FileCheck %s --check-prefix=UNFUSED
// RUN: gemma-opt %s --gemma-make-variants="family=cuda max-batch=1" | FileCheck %s --check-prefix=CUDA
// RUN: gemma-opt %s --gemma-make-variants="family=cuda max-batch=64" | FileCheck %s --check-prefix=CUDA64
// RUN: gemma-opt %s --gemma-make-variants="family=cuda max-batch=64 deterministic=true" | FileCheck %s --check-prefix=SAME
// RUN: not gemma-opt %s --gemma-make-variants="family=tpu" 2>&1 | FileCheck %s --check-prefix=FAMILY
// RUN: not gemma-opt %S/Inputs/no-step.mlir --gemma-make-variants 2>&1 | FileCheck %s --check-prefix=NOSTEP

// CHECK: #[[FEW:.*]] = affine_set<()[s0, s1, s2, s3, s4] : (-s0 + 8 >= 0, -s2 + 1 >= 0)>
// CHECK: gemma.limits = {max_batch = 1 : i64, max_chunk = 512 : i64, max_context = 8192 : i64
// CHECK: func.func @step.decode_few
// CHECK-SAME: condition = #[[FEW]]
// CHECK-SAME: hoist_rows = true
// CHECK-NOT: decode_batch
// CHECK: func.func @step.prefill
// CHECK-SAME: hoist_rows = false
// CHECK-NOT: func.func @step(

// BATCH: func.func @step.decode_few
// BATCH-SAME: max_tokens = 8
// BATCH: func.func @step.decode_batch
// BATCH-SAME: fuse_attention = true
// BATCH-SAME: hoist_rows = false
// BATCH-SAME: max_tokens = 16
// BATCH: func.func @step.prefill

// UNFUSED: func.func @step.unfused
// UNFUSED-SAME: fuse_rows = false
// UNFUSED-NOT: func.func

// Up to 3 tokens projections compute the norm chains before them; above those are launches of their own.
// CUDA: func.func @step.decode_1(
// CUDA-SAME: family = "cuda"
// CUDA-SAME: hoist_rows = true
// CUDA-SAME: split_work = true
// CUDA-SAME: token_tile = 8
// CUDA-NOT: @step.decode
// CUDA: func.func @step.prefill_64(
// CUDA-SAME: max_tokens = 64
// CUDA-SAME: split_work = true
// CUDA-SAME: token_tile = 0
// CUDA: func.func @step.prefill_256(
// CUDA-SAME: max_tokens = 256
// CUDA-SAME: split_work = true
// CUDA: func.func @step.prefill(
// CUDA-SAME: split_work = false
// CUDA-SAME: token_tile = 0

// CUDA64: func.func @step.decode_1(
// CUDA64: func.func @step.decode_3
// CUDA64-SAME: hoist_rows = true
// CUDA64-SAME: max_tokens = 3
// CUDA64-SAME: min_sequences = 2
// CUDA64: func.func @step.decode_8
// CUDA64-SAME: hoist_rows = false
// CUDA64-SAME: max_tokens = 8
// CUDA64-SAME: min_sequences = 4
// CUDA64: func.func @step.decode_32
// CUDA64-SAME: max_tokens = 32
// CUDA64-SAME: token_tile = 32
// CUDA64: func.func @step.decode(
// CUDA64-SAME: max_tokens = 64
// CUDA64: func.func @step.prefill

// Nothing that a result could depend on differs between variants.
// SAME-NOT: decode_1
// SAME-NOT: hoist_rows = true
// SAME: func.func @step.decode_8
// SAME-SAME: fuse_attention = false
// SAME-SAME: split_work = false
// SAME: func.func @step.decode_32
// SAME: func.func @step.decode(
// SAME: func.func @step.prefill
// SAME-SAME: fuse_attention = false

// FAMILY: error: expected family host or cuda, got tpu

// NOSTEP: error: expected a function @step
func.func @step(%x: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %y = gemma.rmsnorm_unit %x {eps = 1.0e-6 : f64} : tensor<?x16xf32>
  return %y : tensor<?x16xf32>
}
