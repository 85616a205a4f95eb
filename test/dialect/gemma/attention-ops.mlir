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

// The cache stores values alone: keys are computed when they are used.
program.weight @l5.k_norm : tensor<16xf32> from ["k_norm"]
program.cache @c2 paged heads 2 dim 16 lanes [v] elem f32 window 0 page 16

func.func @values_alone(%q: tensor<?x4x16xf32>, %v: tensor<?x2x16xf32>,
                        %shared: !gemma.cache<@c2>, %batch: !gemma.batch)
    -> (!gemma.cache<@c2>, tensor<?x4x16xf32>) {
  %values = gemma.cache_append %shared, %v, %batch : !gemma.cache<@c2>, tensor<?x2x16xf32>
  %y = gemma.gqa %q, %values, %batch {kv_heads = 2 : i64, scale = 1.0 : f64,
      keys = #gemma.keys_of_values<norm = @l5.k_norm, theta = 1.0e6 : f64, rot = 16, denom = 16, active = 2>}
    : tensor<?x4x16xf32>, !gemma.cache<@c2>
  return %values, %y : !gemma.cache<@c2>, tensor<?x4x16xf32>
}

func.func @gate(%x: tensor<?x64xf32>, %gate: tensor<?x64xf32>) {
  %y = gemma.sigmoid_gate %x, %gate : tensor<?x64xf32>
  return
}
