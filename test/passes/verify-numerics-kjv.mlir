// The trained example model through import and optimize, fused and unfused, keeps every bit.
// RUN: gemma-opt %s --gemma-import="config=%kjv/config.json" -o %t.mlir --mlir-print-debuginfo
// RUN: gemma-opt %t.mlir --verify-numerics --gemma-phase-import --gemma-phase-optimize -o %t.out 2>&1 | FileCheck %s
// RUN: gemma-opt %t.mlir --verify-numerics --verify-numerics-seed=2 --gemma-phase-import --gemma-phase-optimize="fusion=false" -o %t.out 2>&1 | FileCheck %s
// Storing the values alone moves roundings, within the bound that the pass declares.
// RUN: not gemma-opt %t.mlir --verify-numerics --verify-numerics-bound=gemma-share-kv=1e-18 --gemma-phase-optimize -o %t.out 2>&1 | FileCheck %s --check-prefix=EXACT
// RUN: gemma-opt %t.mlir --verify-numerics --gemma-phase-optimize="kv-sharing=false" -o - 2>/dev/null | FileCheck %s --check-prefix=STORED
// EXACT: verify-numerics: gemma-share-kv: @step: {{.*}} changed, {{.*}} allowed 1e-18; the first node that differs is step 1: layers[5].attn.core
// STORED-NOT: lanes [v]
// CHECK: remark: verify-numerics: {{[0-9]+}} passes changed nothing that {{[2-9]}} step functions compute
module {
}
