// RUN: gemma-opt %s --verify-roundtrip

// Groups with results, with a cache among them, and without any.
module attributes {gemma.numerics = #gemma.numerics<weights = bf16, activations = f32,
    accumulate = f32, residual = f32, kv = bf16, logits = f32>} {
  program.weight @norm : tensor<96xf32> from ["norm.weight"]
  program.cache @c0 ring heads 2 dim 16 elem f32 window 8 page 16

  func.func @groups(%x: tensor<?x96xf32>, %o: tensor<?x96xf32>, %q: tensor<?x4x16xf32>,
                    %k: tensor<?x2x16xf32>, %cache: !gemma.cache<@c0>, %batch: !gemma.batch) {
    %y, %h = gemma.group -> tensor<?x96xf32>, tensor<?x96xf32> {
      %0 = gemma.residual %x, %o : tensor<?x96xf32>
      %1 = gemma.rmsnorm %0, @norm {eps = 1.0e-6 : f64} : tensor<?x96xf32>
      gemma.yield %0, %1 : tensor<?x96xf32>, tensor<?x96xf32>
    }
    %a, %new = gemma.group -> tensor<?x4x16xf32>, !gemma.cache<@c0> {
      %0 = gemma.cache_append %cache, %k, %k, %batch : !gemma.cache<@c0>, tensor<?x2x16xf32>
      %1 = gemma.gqa %q, %0, %batch {kv_heads = 2 : i64, scale = 1.0 : f64, window = 8 : i64}
        : tensor<?x4x16xf32>, !gemma.cache<@c0>
      gemma.yield %1, %0 : tensor<?x4x16xf32>, !gemma.cache<@c0>
    }
    gemma.group {
    }
    return
  }
}

// Integers for weights.
module attributes {gemma.numerics = #gemma.numerics<weights = i4, activations = f32, accumulate = f32,
    residual = f32, kv = bf16, logits = f32, embedding = i8, codes = i8>} {
}
