// One kernel a distinct group, one launch a group; kernels see packed weights, caches and inputs.
// RUN: gemma-opt %S/Inputs/layer.mlir --gemma-phase-import --gemma-phase-optimize --gemma-phase-lower | FileCheck %s

// CHECK-LABEL: program.variant @decode_few
// CHECK-COUNT-7: program.launch
// CHECK-NOT: program.launch
// CHECK-LABEL: program.variant @prefill
// CHECK: program.output "logits"

// The hoisted norm fills the worker's scratch, the contraction reads it.
// CHECK: kernel.func @linear_
// CHECK: %[[S:.*]] = kernel.scratch : memref<1x32xf32>
// CHECK: kernel.rows domain
// CHECK-SAME: outs(%[[S]]
// CHECK: kernel.grid
// CHECK: kernel.contract block {{.*}} act(%[[S]]

// The residual is computed by every worker and written by one.
// CHECK: kernel.func @linear__gelu_mul_
// CHECK: kernel.rows {{.*}} once
// CHECK: kernel.contract {{.*}} pair
// CHECK: math.tanh
