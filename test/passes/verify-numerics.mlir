// --verify-numerics: right passes are counted, a pass that changes a bit is named with the node, a
// declared bound lets it through, too large a module is skipped aloud.
// RUN: gemma-opt %s --gemma-import="config=%data/models/narrow-12b/config.json dtype=f64" -o %t.mlir --mlir-print-debuginfo
// RUN: gemma-opt %t.mlir --verify-numerics --gemma-phase-import --gemma-phase-optimize -o %t.out 2>&1 | FileCheck %s --check-prefix=FUSED
// RUN: gemma-opt %t.mlir --verify-numerics --gemma-phase-import --gemma-phase-optimize="fusion=false" -o %t.out 2>&1 | FileCheck %s --check-prefix=UNFUSED
// RUN: gemma-opt %t.mlir --verify-numerics --gemma-compile-phases="max-batch=16" -o %t.out 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: not gemma-opt %t.mlir --verify-numerics --gemma-test-break-step --gemma-phase-optimize 2>&1 | FileCheck %s --check-prefix=BROKEN
// RUN: not gemma-opt %t.mlir --verify-numerics --gemma-phase-optimize --gemma-test-break-step="node=final_norm factor=1e-7" 2>&1 | FileCheck %s --check-prefix=LATE
// RUN: not gemma-opt %t.mlir --verify-numerics --verify-numerics-bound=gemma-test-break-step=1e-30 --gemma-test-break-step 2>&1 | FileCheck %s --check-prefix=TIGHT
// RUN: gemma-opt %t.mlir --verify-numerics --verify-numerics-bound=gemma-test-break-step=1e-6 --gemma-test-break-step --gemma-phase-optimize -o %t.out 2>&1 | FileCheck %s --check-prefix=BOUNDED
// RUN: gemma-opt %s --verify-numerics --canonicalize -o %t.out 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: gemma-opt %s --gemma-import="config=%data/configs/gemma-4-12B/config.json" -o %t.large.mlir --mlir-print-debuginfo
// RUN: gemma-opt %t.large.mlir --verify-numerics --canonicalize -o %t.out 2>&1 | FileCheck %s --check-prefix=LARGE

// Canonicalizer, verify-phase; make-variants, form-groups on each variant, verify-phase.
// FUSED:   remark: verify-numerics: {{[0-9]+}} passes changed nothing that 3 step functions compute
// UNFUSED: remark: verify-numerics: {{[0-9]+}} passes changed nothing that 2 step functions compute
// BATCH:   remark: verify-numerics: {{[0-9]+}} passes changed nothing that 4 step functions compute

// BROKEN: error: verify-numerics: gemma-test-break-step: @step: step 1: logits changed, max|d|/max|ref| = {{.*}}, allowed 0; the first node that differs is step 1: layers[0].attn_residual
// LATE:   error: verify-numerics: gemma-test-break-step: @step.decode_few: step 1: logits changed, {{.*}}; the first node that differs is step 1: final_norm
// TIGHT:  error: verify-numerics: gemma-test-break-step: @step: step 1: logits changed, {{.*}}, allowed 1e-30
// BOUNDED: remark: verify-numerics: {{[0-9]+}} passes changed nothing

// NOTHING: remark: verify-numerics: no pass ran on a step function, nothing was checked
// LARGE: remark: verify-numerics: skipped, the module has 11907350320 weights, more than 50000000
module {
}
