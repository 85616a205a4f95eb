// RUN: gemma-opt %s --canonicalize | FileCheck %s

// The folds that change no value, and near misses that must stay.
program.weight @s : tensor<1xf32> from ["layer_scalar"]

// CHECK-LABEL: @residual(
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf32>, %[[H:.*]]: tensor<?x64xf32>
// CHECK-DAG: %[[SCALED:.*]] = gemma.residual %[[X]], %[[H]] scale @s
// CHECK-DAG: %[[ADDED:.*]] = gemma.residual %[[X]], %[[H]] {r = {{.*}}}
// CHECK: return %[[X]], %[[SCALED]], %[[ADDED]]
func.func @residual(%x: tensor<?x64xf32>, %h: tensor<?x64xf32>)
    -> (tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>) {
  %folded = gemma.residual %x, %h {r = 0.0 : f64} : tensor<?x64xf32>
  %scaled = gemma.residual %x, %h scale @s {r = 0.0 : f64} : tensor<?x64xf32>
  %added = gemma.residual %x, %h {r = 1.0e-30 : f64} : tensor<?x64xf32>
  return %folded, %scaled, %added : tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>
}

// CHECK-LABEL: @rope(
// CHECK-SAME: %[[X:.*]]: tensor<?x4x16xf32>
// CHECK: %[[Y:.*]] = gemma.rope %[[X]]
// CHECK: return %[[X]], %[[Y]]
func.func @rope(%x: tensor<?x4x16xf32>, %batch: !gemma.batch)
    -> (tensor<?x4x16xf32>, tensor<?x4x16xf32>) {
  %folded = gemma.rope %x, %batch {theta = 1.0e4 : f64, rot = 16 : i64, denom = 16 : i64, active = 0 : i64}
    : tensor<?x4x16xf32>
  %kept = gemma.rope %x, %batch {theta = 1.0e4 : f64, rot = 16 : i64, denom = 16 : i64, active = 1 : i64}
    : tensor<?x4x16xf32>
  return %folded, %kept : tensor<?x4x16xf32>, tensor<?x4x16xf32>
}

// Unused nodes are dead: ops are pure.
// CHECK-LABEL: @dead(
// CHECK-NEXT: return
func.func @dead(%x: tensor<?x64xf32>) {
  %y = gemma.rmsnorm_unit %x {eps = 1.0e-6 : f64} : tensor<?x64xf32>
  return
}
