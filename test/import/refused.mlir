// What the import pass refuses.
// RUN: not gemma-opt %s --gemma-import="config=%data/models/narrow-12b/config.json dtype=f17" 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not gemma-opt %s --gemma-import="config=%data/models/narrow-12b/config.json dtype=i8" 2>&1 | FileCheck %s --check-prefix=NOFLOAT
// RUN: not gemma-opt %s --gemma-import="config=%t.json dtype=f64" 2>&1 | FileCheck %s --check-prefix=FILE

// TYPE: unknown dtype 'f17', expected f64, f32 or bf16
// NOFLOAT: cannot import with dtype i8, expected f64, f32 or bf16
// FILE: error: {{.*}}refused.mlir.tmp.json
