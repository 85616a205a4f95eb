// A phase that leaves something over is named, with the operation.
// RUN: gemma-opt %s --split-input-file --gemma-verify-phase="phase=memory" --verify-diagnostics

// expected-error @below {{is left over after lower}}
func.func @step() { return }

// -----

module attributes {gemma.limits = {max_context = 64 : i64, max_batch = 1 : i64, max_chunk = 4 : i64, max_logit_rows = 1 : i64}} {
kernel.func @copy(%x: memref<?x16xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x16xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.return
}
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (0 == 0)> attributes {arena = 512 : i64} {
  %a = program.buffer extent "T" offset 0 : memref<?x16xf32>
  %b = program.buffer extent "T" offset 128 : memref<?x16xf32>
  // expected-error @below {{writes argument 1, which overlaps argument 0}}
  program.launch @copy(%a, %b) : memref<?x16xf32>, memref<?x16xf32>
}
}

// -----

module attributes {gemma.limits = {max_context = 64 : i64, max_batch = 1 : i64, max_chunk = 4 : i64, max_logit_rows = 1 : i64}} {
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (0 == 0)> attributes {arena = 512 : i64} {
  // expected-error @below {{has no place after memory}}
  %a = program.buffer extent "T" : memref<?x16xf32>
}
}
