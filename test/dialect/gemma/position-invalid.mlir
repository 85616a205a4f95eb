// RUN: gemma-opt %s --split-input-file --verify-diagnostics

// rope_c1
func.func @f(%q: tensor<?x4x16xf32>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected a positive finite theta, got 0}}
  %y = gemma.rope %q, %batch {theta = 0.0 : f64, rot = 16 : i64, denom = 16 : i64, active = 8 : i64} : tensor<?x4x16xf32>
  return
}

// -----

// rope_c2: odd
func.func @f(%q: tensor<?x4x16xf32>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected an even rot in [2, 16], got 5}}
  %y = gemma.rope %q, %batch {theta = 1.0e4 : f64, rot = 5 : i64, denom = 16 : i64, active = 2 : i64} : tensor<?x4x16xf32>
  return
}

// -----

// rope_c2: beyond the head
func.func @f(%q: tensor<?x4x16xf32>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected an even rot in [2, 16], got 18}}
  %y = gemma.rope %q, %batch {theta = 1.0e4 : f64, rot = 18 : i64, denom = 16 : i64, active = 2 : i64} : tensor<?x4x16xf32>
  return
}

// -----

// rope_c3
func.func @f(%q: tensor<?x4x16xf32>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected denom >= 1, got 0}}
  %y = gemma.rope %q, %batch {theta = 1.0e4 : f64, rot = 16 : i64, denom = 0 : i64, active = 2 : i64} : tensor<?x4x16xf32>
  return
}

// -----

// rope_c4
func.func @f(%q: tensor<?x4x16xf32>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected active in [0, 8], got 9}}
  %y = gemma.rope %q, %batch {theta = 1.0e4 : f64, rot = 16 : i64, denom = 16 : i64, active = 9 : i64} : tensor<?x4x16xf32>
  return
}

// -----

// rope_std_c1
func.func @f(%q: tensor<?x4x16xf32>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected a positive finite theta, got -1}}
  %y = gemma.rope_std %q, %batch {theta = -1.0 : f64, rot = 16 : i64} : tensor<?x4x16xf32>
  return
}

// -----

// rope_std_c2
func.func @f(%q: tensor<?x4x16xf32>, %batch: !gemma.batch) {
  // expected-error @+1 {{expected an even rot in [2, 16], got 0}}
  %y = gemma.rope_std %q, %batch {theta = 1.0e4 : f64, rot = 0 : i64} : tensor<?x4x16xf32>
  return
}
