// RUN: gemma-opt %s --verify-roundtrip

// Full, proportional and standard RoPE.
func.func @rope(%q: tensor<?x4x16xf32>, %batch: !gemma.batch) {
  %0 = gemma.rope %q, %batch {theta = 1.0e4 : f64, rot = 16 : i64, denom = 16 : i64, active = 8 : i64}
    : tensor<?x4x16xf32>
  %1 = gemma.rope %q, %batch {theta = 1.0e6 : f64, rot = 16 : i64, denom = 16 : i64, active = 2 : i64}
    : tensor<?x4x16xf32>
  %2 = gemma.rope_std %q, %batch {theta = 1.0e4 : f64, rot = 8 : i64} : tensor<?x4x16xf32>
  return
}
