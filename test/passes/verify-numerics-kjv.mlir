// The trained example model through import and optimize, fused and unfused, keeps every bit.
// RUN: gemma-opt %s --gemma-import="config=%kjv/config.json" -o %t.mlir --mlir-print-debuginfo
// RUN: gemma-opt %t.mlir --verify-numerics --gemma-phase-import --gemma-phase-optimize -o %t.out 2>&1 | FileCheck %s
// RUN: gemma-opt %t.mlir --verify-numerics --verify-numerics-seed=2 --gemma-phase-import --gemma-phase-optimize="fusion=false" -o %t.out 2>&1 | FileCheck %s
// CHECK: remark: verify-numerics: {{[0-9]+}} passes changed nothing that {{[2-9]}} step functions compute
module {
}
