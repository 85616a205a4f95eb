// Buffers that live at the same time lie apart, others share bytes; sizes are the largest.
// RUN: gemma-opt %s --pass-pipeline="builtin.module(program.variant(gemma-plan-arena))" | FileCheck %s

module attributes {gemma.limits = {max_context = 64 : i64, max_batch = 2 : i64, max_chunk = 4 : i64, max_logit_rows = 3 : i64}} {
kernel.func @copy(%x: memref<?x16xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x16xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.return
}
kernel.func @fill(%x: memref<?x16xf32> {kernel.access = #kernel.access<read>}, %y: memref<16xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (1)> {
  kernel.return
}
// CHECK: program.variant @v {{.*}} attributes {arena = 512 : i64}
program.variant @v target "host" when affine_set<()[T, B, Q, S, R] : (0 == 0)> {
  // CHECK: program.buffer extent "T" offset [[A:[0-9]+]]
  %a = program.buffer extent "T" : memref<?x16xf32>
  // CHECK: program.buffer extent "T" offset [[B:[0-9]+]]
  %b = program.buffer extent "T" : memref<?x16xf32>
  // %c is written after the last use of %a.
  // CHECK: program.buffer extent "T" offset [[A]]
  %c = program.buffer extent "T" : memref<?x16xf32>
  program.launch @copy(%a, %b) : memref<?x16xf32>, memref<?x16xf32>
  program.launch @copy(%b, %c) : memref<?x16xf32>, memref<?x16xf32>
}
// A buffer takes the most rows that its extent may have: 2 sequences, 3 logit rows, 1 without an extent.
// CHECK: program.variant @extents {{.*}} attributes {arena = 384 : i64}
program.variant @extents target "host" when affine_set<()[T, B, Q, S, R] : (0 == 0)> {
  // CHECK: program.buffer extent "B" offset 192
  %a = program.buffer extent "B" : memref<?x16xf32>
  // CHECK: program.buffer extent "R" offset 0
  %b = program.buffer extent "R" : memref<?x16xf32>
  // CHECK: program.buffer offset 320
  %c = program.buffer : memref<16xf32>
  program.launch @copy(%a, %b) : memref<?x16xf32>, memref<?x16xf32>
  program.launch @fill(%b, %c) : memref<?x16xf32>, memref<16xf32>
  program.launch @copy(%b, %a) : memref<?x16xf32>, memref<?x16xf32>
}
}
