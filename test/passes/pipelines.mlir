// The order of the phases, and the verifier that closes each.
// RUN: gemma-opt %S/Inputs/layer.mlir --gemma-compile-phases --mlir-timing --mlir-timing-display=tree -o /dev/null 2>&1 | FileCheck %s

// CHECK: Canonicalizer
// CHECK: VerifyPhase
// CHECK: ShareKv
// CHECK: MakeVariants
// CHECK: FormGroups
// CHECK: VerifyPhase
// CHECK: PlanStorage
// CHECK: LowerGroups
// CHECK: VerifyPhase
// CHECK: PlanArena
// CHECK: VerifyPhase
