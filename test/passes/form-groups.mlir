// Norm chains join the projection that reads them in decode_few, and are groups of their own in
// prefill; head norms, rope and append join the attention in decode. Unfused, a node is a group.
// RUN: gemma-opt %S/Inputs/layer.mlir --pass-pipeline="builtin.module(gemma-make-variants,func.func(gemma-form-groups))" | FileCheck %s
// RUN: gemma-opt %S/Inputs/layer.mlir --pass-pipeline="builtin.module(gemma-make-variants{fusion=false},func.func(gemma-form-groups))" | FileCheck %s --check-prefix=UNFUSED

// CHECK-LABEL: func.func @step.decode_few
// CHECK:      gemma.group -> tensor<?x32xf32> {
// CHECK-NEXT:   gemma.embed
// CHECK:      %[[P:.*]] = gemma.group -> tensor<?x32xf32> {
// CHECK-NEXT:   gemma.rmsnorm
// CHECK-NEXT:   gemma.linear {{.*}}, @qkv
// CHECK:      tensor.extract_slice %[[P]]
// CHECK:      gemma.group -> !gemma.cache<@c0>, tensor<?x2x8xf32> {
// CHECK-NEXT:   gemma.rmsnorm
// CHECK-NEXT:   gemma.rmsnorm_unit
// CHECK-NEXT:   gemma.rope
// CHECK-NEXT:   gemma.cache_append
// CHECK-NEXT:   gemma.gqa
// CHECK:      gemma.group
// CHECK-NEXT:   gemma.linear {{.*}}, @o
// CHECK:      gemma.group -> tensor<?x32xf32>, tensor<?x48xf32> {
// CHECK-NEXT:   gemma.residual
// CHECK-NEXT:   gemma.rmsnorm
// CHECK-NEXT:   gemma.linear
// CHECK-NEXT:   gemma.gelu_mul
// CHECK:      gemma.group
// CHECK-NEXT:   gemma.linear {{.*}}, @down
// CHECK:      gemma.group
// CHECK-NEXT:   gemma.residual
// CHECK-NEXT:   gemma.select_rows
// CHECK-NEXT:   gemma.rmsnorm
// CHECK-NEXT:   gemma.lm_head

// CHECK-LABEL: func.func @step.prefill
// CHECK:      gemma.rmsnorm
// CHECK-NEXT:   gemma.yield
// CHECK:      gemma.cache_append
// CHECK-NEXT:   gemma.yield
// CHECK:      gemma.gqa
// CHECK-NEXT:   gemma.yield
// CHECK:      gemma.residual
// CHECK-NEXT:   gemma.rmsnorm
// CHECK-NEXT:   gemma.yield
// CHECK:      gemma.linear
// CHECK-NEXT:   gemma.gelu_mul
// CHECK:      gemma.residual
// CHECK-NEXT:   gemma.yield
// CHECK:      gemma.select_rows

// UNFUSED-COUNT-18: gemma.group
// UNFUSED-NOT:      gemma.group

// A node that reads another through a reshape is in a group of its own: reshapes stay outside.
// RUN: gemma-opt %S/Inputs/reshape.mlir --pass-pipeline="builtin.module(gemma-make-variants,func.func(gemma-form-groups))" | FileCheck %s --check-prefix=RESHAPE
// RESHAPE-LABEL: func.func @step.decode_few
// RESHAPE:      gemma.group
// RESHAPE-NEXT:   gemma.l2norm
// RESHAPE-NEXT:   gemma.yield
// RESHAPE:      tensor.expand_shape
// RESHAPE:      gemma.group
// RESHAPE-NEXT:   gemma.rmsnorm_unit
