// The largest logits of a row: a launch behind the head, which writes outputs of its own. On CUDA devices the
// head's blocks leave the largest of their tiles for it, if one is wanted and nodes are fused.
// RUN: gemma-opt --gemma-import="config=%data/models/narrow-12b/config.json top=1" --gemma-phase-import --gemma-phase-optimize="family=cuda" --gemma-phase-lower %S/Inputs/no-step.mlir | FileCheck %s
// RUN: gemma-opt --gemma-import="config=%data/models/narrow-12b/config.json top=4" --gemma-phase-import --gemma-phase-optimize="family=cuda" --gemma-phase-lower %S/Inputs/no-step.mlir | FileCheck %s --check-prefix=FOUR
// RUN: gemma-opt --gemma-import="config=%data/models/narrow-12b/config.json top=1" --gemma-phase-import --gemma-phase-optimize --gemma-phase-lower %S/Inputs/no-step.mlir | FileCheck %s --check-prefix=HOST
// RUN: gemma-opt --gemma-import="config=%data/models/narrow-12b/config.json" --gemma-phase-import --gemma-phase-optimize="family=cuda" --gemma-phase-lower %S/Inputs/no-step.mlir | FileCheck %s --check-prefix=NONE

// CHECK-LABEL: program.variant @decode_1
// CHECK-DAG: %[[LOGITS:.*]] = program.output "logits" : memref<?x512xf32>
// CHECK-DAG: %[[BEST:.*]] = program.buffer extent "R" : memref<?x8x2xi32>
// CHECK: program.launch @lm_head_{{.*}}%[[LOGITS]]{{.*}}%[[BEST]]
// CHECK-DAG: %[[VALUES:.*]] = program.output "top_values" : memref<?x1xf32>
// CHECK-DAG: %[[IDS:.*]] = program.output "top_ids" : memref<?x1xi32>
// CHECK: program.launch @top_k_{{.*}}(%[[LOGITS]], %[[VALUES]], %[[IDS]], %[[BEST]])
// CHECK-LABEL: program.variant @prefill
// CHECK: kernel.func @lm_head_
// CHECK: kernel.contract {{.*}}best(%{{.*}} : memref<?x8x2xi32>) extent <R>
// CHECK: kernel.func @top_k_
// CHECK: kernel.topk {{.*}}best(

// FOUR: program.output "top_ids" : memref<?x4xi32>
// FOUR-NOT: best(

// HOST: program.output "top_ids" : memref<?x1xi32>
// HOST-NOT: best(

// NONE-NOT: top_
// NONE-NOT: best(
