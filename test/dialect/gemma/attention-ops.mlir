// RUN: gemma-opt %s --verify-roundtrip

// Sliding and global attention, each over the version that holds the step's own tokens.
program.cache @c0 ring heads 2 dim 16 elem f32 window 8 page 16
program.cache @c1 paged heads 1 dim 16 elem bf16 window 0 page 16

func.func @attention(%q: tensor<?x4x16xf32>, %k: tensor<?x2x16xf32>, %v: tensor<?x2x16xf32>,
                     %cache: !gemma.cache<@c0>, %global: !gemma.cache<@c1>, %batch: !gemma.batch)
    -> (!gemma.cache<@c0>, tensor<?x4x16xf32>) {
  %new = gemma.cache_append %cache, %k, %v, %batch : !gemma.cache<@c0>, tensor<?x2x16xf32>
  %y = gemma.gqa %q, %new, %batch {kv_heads = 2 : i64, scale = 1.0 : f64, window = 8 : i64}
    : tensor<?x4x16xf32>, !gemma.cache<@c0>
  %z = gemma.gqa %y, %global, %batch {kv_heads = 1 : i64, scale = 0.25 : f64}
    : tensor<?x4x16xf32>, !gemma.cache<@c1>
  return %new, %z : !gemma.cache<@c0>, tensor<?x4x16xf32>
}

func.func @gate(%x: tensor<?x64xf32>, %gate: tensor<?x64xf32>) {
  %y = gemma.sigmoid_gate %x, %gate : tensor<?x64xf32>
  return
}
