// The narrow 12B model: weights and caches, a sliding layer, a global layer, both ends.
// RUN: gemma-opt %s --gemma-import="config=%data/models/narrow-12b/config.json dtype=bf16" \
// RUN:   --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s

// CHECK: module attributes {gemma.numerics = #gemma.numerics<weights = bf16, activations = f32, accumulate = f32, residual = f32, kv = bf16, logits = f32>}
// CHECK: program.weight @embed_tokens : tensor<512x96xbf16> from ["embed_tokens.weight"]
// CHECK: program.weight @l0.input_norm : tensor<96xf32> from ["layers.0.input_layernorm.weight"]
// CHECK: program.weight @l0.qkv : tensor<128x96xbf16> from ["layers.0.self_attn.q_proj.weight", "layers.0.self_attn.k_proj.weight", "layers.0.self_attn.v_proj.weight"]
// CHECK: program.weight @l0.q_norm : tensor<16xf32> from ["layers.0.self_attn.q_norm.weight"]
// CHECK: program.weight @l0.k_norm : tensor<16xf32> from ["layers.0.self_attn.k_norm.weight"]
// CHECK: program.weight @l0.o : tensor<96x64xbf16> from ["layers.0.self_attn.o_proj.weight"]
// CHECK: program.weight @l0.post_mix_norm : tensor<96xf32> from ["layers.0.post_attention_layernorm.weight"]
// CHECK: program.weight @l0.post_attn_norm : tensor<96xf32> from ["layers.0.pre_feedforward_layernorm.weight"]
// CHECK: program.weight @l0.gate_up : tensor<768x96xbf16> from ["layers.0.mlp.gate_proj.weight", "layers.0.mlp.up_proj.weight"]
// CHECK: program.weight @l0.down : tensor<96x384xbf16> from ["layers.0.mlp.down_proj.weight"]
// CHECK: program.weight @l0.post_ffn_norm : tensor<96xf32> from ["layers.0.post_feedforward_layernorm.weight"]
// CHECK: program.weight @l0.layer_scalar : tensor<1xf32> from ["layers.0.layer_scalar"]
// CHECK: program.weight @l5.input_norm : tensor<96xf32> from ["layers.5.input_layernorm.weight"]
// CHECK: program.weight @l5.qkv : tensor<160x96xbf16> from ["layers.5.self_attn.q_proj.weight", "layers.5.self_attn.k_proj.weight"]
// CHECK: program.weight @l5.q_norm : tensor<32xf32> from ["layers.5.self_attn.q_norm.weight"]
// CHECK: program.weight @l5.k_norm : tensor<32xf32> from ["layers.5.self_attn.k_norm.weight"]
// CHECK: program.weight @l5.o : tensor<96x128xbf16> from ["layers.5.self_attn.o_proj.weight"]
// CHECK: program.weight @l5.post_mix_norm : tensor<96xf32> from ["layers.5.post_attention_layernorm.weight"]
// CHECK: program.weight @l5.post_attn_norm : tensor<96xf32> from ["layers.5.pre_feedforward_layernorm.weight"]
// CHECK: program.weight @l5.gate_up : tensor<768x96xbf16> from ["layers.5.mlp.gate_proj.weight", "layers.5.mlp.up_proj.weight"]
// CHECK: program.weight @l5.down : tensor<96x384xbf16> from ["layers.5.mlp.down_proj.weight"]
// CHECK: program.weight @l5.post_ffn_norm : tensor<96xf32> from ["layers.5.post_feedforward_layernorm.weight"]
// CHECK: program.weight @l5.layer_scalar : tensor<1xf32> from ["layers.5.layer_scalar"]
// CHECK: program.weight @final_norm : tensor<96xf32> from ["norm.weight"]
// CHECK: program.cache @c0 ring heads 2 dim 16 lanes [k, v] elem bf16 window 16 page 16
// CHECK: program.cache @c5 paged heads 1 dim 32 lanes [k, v] elem bf16 window 0 page 16
// CHECK-NOT: program.weight @lm_head

// CHECK: func.func @step(%[[TOKENS:[^:]+]]: tensor<?xi32> {{[^,]*}}, %[[B:[^:]+]]: !gemma.batch {{[^,]*}}, %[[ROWS:[^:]+]]: tensor<?xi32> {{[^,]*}}, %[[C0IN:[^:]+]]: !gemma.cache<@c0>
// CHECK: %[[T:.+]] = tensor.dim %[[TOKENS]]
// CHECK: %[[X:.+]] = gemma.embed %[[TOKENS]], @embed_tokens {mul = 9.797958971132{{[0-9]+}} : f64} : tensor<?xi32> -> tensor<?x96xf32> loc("embed")

// A sliding layer.
// CHECK: %[[N:.+]] = gemma.rmsnorm %[[X]], @l0.input_norm {eps = {{[0-9.E-]+}} : f64} : tensor<?x96xf32> loc("layers[0].input_norm")
// CHECK: %[[QKV:.+]] = gemma.linear %[[N]], @l0.qkv : tensor<?x96xf32> -> tensor<?x128xf32> loc("layers[0].attn.qkv_proj")
// CHECK: %[[QS:.+]] = tensor.extract_slice %[[QKV]][0, 0] [%[[T]], 64] [1, 1] : tensor<?x128xf32> to tensor<?x64xf32> loc("layers[0].attn.split_heads"("q"))
// CHECK: %[[Q:.+]] = tensor.expand_shape %[[QS]] {{\[\[0\], \[1, 2\]\]}} output_shape [%[[T]], 4, 16] : tensor<?x64xf32> into tensor<?x4x16xf32> loc("layers[0].attn.split_heads"("q"))
// CHECK: %[[KS:.+]] = tensor.extract_slice %[[QKV]][0, 64] [%[[T]], 32] [1, 1] : tensor<?x128xf32> to tensor<?x32xf32> loc("layers[0].attn.split_heads"("k"))
// CHECK: %[[K:.+]] = tensor.expand_shape %[[KS]] {{\[\[0\], \[1, 2\]\]}} output_shape [%[[T]], 2, 16] : tensor<?x32xf32> into tensor<?x2x16xf32> loc("layers[0].attn.split_heads"("k"))
// CHECK: %[[VS:.+]] = tensor.extract_slice %[[QKV]][0, 96] [%[[T]], 32] [1, 1] : tensor<?x128xf32> to tensor<?x32xf32> loc("layers[0].attn.split_heads"("v"))
// CHECK: %[[V:.+]] = tensor.expand_shape %[[VS]] {{\[\[0\], \[1, 2\]\]}} output_shape [%[[T]], 2, 16] : tensor<?x32xf32> into tensor<?x2x16xf32> loc("layers[0].attn.split_heads"("v"))
// CHECK: %[[QN:.+]] = gemma.rmsnorm %[[Q]], @l0.q_norm {eps = {{[0-9.E-]+}} : f64} : tensor<?x4x16xf32> loc("layers[0].attn.qk_norm"("q"))
// CHECK: %[[KN:.+]] = gemma.rmsnorm %[[K]], @l0.k_norm {eps = {{[0-9.E-]+}} : f64} : tensor<?x2x16xf32> loc("layers[0].attn.qk_norm"("k"))
// CHECK: %[[VN:.+]] = gemma.rmsnorm_unit %[[V]] {eps = {{[0-9.E-]+}} : f64} : tensor<?x2x16xf32> loc("layers[0].attn.v_norm")
// CHECK: %[[QR:.+]] = gemma.rope %[[QN]], %[[B]] {active = 8 : i64, denom = 16 : i64, rot = 16 : i64, theta = 1.000000e+04 : f64} : tensor<?x4x16xf32> loc("layers[0].attn.rope"("q"))
// CHECK: %[[KR:.+]] = gemma.rope %[[KN]], %[[B]] {active = 8 : i64, denom = 16 : i64, rot = 16 : i64, theta = 1.000000e+04 : f64} : tensor<?x2x16xf32> loc("layers[0].attn.rope"("k"))
// CHECK: %[[C0:.+]] = gemma.cache_append %{{.+}}, %[[KR]], %[[VN]], %[[B]] : <@c0>, tensor<?x2x16xf32> loc("layers[0].attn.append")
// CHECK: %[[O:.+]] = gemma.gqa %[[QR]], %[[C0]], %[[B]] {kv_heads = 2 : i64, scale = 1.000000e+00 : f64, window = 16 : i64} : tensor<?x4x16xf32>, <@c0> loc("layers[0].attn.core")
// CHECK: %[[J:.+]] = tensor.collapse_shape %[[O]] {{\[\[0\], \[1, 2\]\]}} : tensor<?x4x16xf32> into tensor<?x64xf32> loc("layers[0].attn.join_heads")
// CHECK: %[[A:.+]] = gemma.linear %[[J]], @l0.o : tensor<?x64xf32> -> tensor<?x96xf32> loc("layers[0].attn.o_proj")
// CHECK: %[[M:.+]] = gemma.rmsnorm %[[A]], @l0.post_mix_norm {eps = {{[0-9.E-]+}} : f64} : tensor<?x96xf32> loc("layers[0].post_mix_norm")
// CHECK: %[[R:.+]] = gemma.residual %[[X]], %[[M]] : tensor<?x96xf32> loc("layers[0].attn_residual")
// CHECK: %[[P:.+]] = gemma.rmsnorm %[[R]], @l0.post_attn_norm {eps = {{[0-9.E-]+}} : f64} : tensor<?x96xf32> loc("layers[0].post_attn_norm")
// CHECK: %[[GU:.+]] = gemma.linear %[[P]], @l0.gate_up : tensor<?x96xf32> -> tensor<?x768xf32> loc("layers[0].mlp.gate_up")
// CHECK: %[[ACT:.+]] = gemma.gelu_mul %[[GU]] : tensor<?x768xf32> -> tensor<?x384xf32> loc("layers[0].mlp.act")
// CHECK: %[[D:.+]] = gemma.linear %[[ACT]], @l0.down : tensor<?x384xf32> -> tensor<?x96xf32> loc("layers[0].mlp.down")
// CHECK: %[[F:.+]] = gemma.rmsnorm %[[D]], @l0.post_ffn_norm {eps = {{[0-9.E-]+}} : f64} : tensor<?x96xf32> loc("layers[0].post_ffn_norm")
// CHECK: %[[Y0:.+]] = gemma.residual %[[R]], %[[F]] scale @l0.layer_scalar : tensor<?x96xf32> loc("layers[0].mlp_residual")

// A global layer: V is the norm of the raw keys, a quarter of the pairs turns.
// CHECK: %[[X5:.+]] = gemma.residual {{.*}} loc("layers[4].mlp_residual")
// CHECK: %[[N:.+]] = gemma.rmsnorm %[[X5]], @l5.input_norm {eps = {{[0-9.E-]+}} : f64} : tensor<?x96xf32> loc("layers[5].input_norm")
// CHECK: %[[QKV:.+]] = gemma.linear %[[N]], @l5.qkv : tensor<?x96xf32> -> tensor<?x160xf32> loc("layers[5].attn.qkv_proj")
// CHECK: %[[QS:.+]] = tensor.extract_slice %[[QKV]][0, 0] [%[[T]], 128] [1, 1] : tensor<?x160xf32> to tensor<?x128xf32> loc("layers[5].attn.split_heads"("q"))
// CHECK: %[[Q:.+]] = tensor.expand_shape %[[QS]] {{\[\[0\], \[1, 2\]\]}} output_shape [%[[T]], 4, 32] : tensor<?x128xf32> into tensor<?x4x32xf32> loc("layers[5].attn.split_heads"("q"))
// CHECK: %[[KS:.+]] = tensor.extract_slice %[[QKV]][0, 128] [%[[T]], 32] [1, 1] : tensor<?x160xf32> to tensor<?x32xf32> loc("layers[5].attn.split_heads"("k"))
// CHECK: %[[K:.+]] = tensor.expand_shape %[[KS]] {{\[\[0\], \[1, 2\]\]}} output_shape [%[[T]], 1, 32] : tensor<?x32xf32> into tensor<?x1x32xf32> loc("layers[5].attn.split_heads"("k"))
// CHECK: %[[QN:.+]] = gemma.rmsnorm %[[Q]], @l5.q_norm {eps = {{[0-9.E-]+}} : f64} : tensor<?x4x32xf32> loc("layers[5].attn.qk_norm"("q"))
// CHECK: %[[KN:.+]] = gemma.rmsnorm %[[K]], @l5.k_norm {eps = {{[0-9.E-]+}} : f64} : tensor<?x1x32xf32> loc("layers[5].attn.qk_norm"("k"))
// CHECK: %[[VN:.+]] = gemma.rmsnorm_unit %[[K]] {eps = {{[0-9.E-]+}} : f64} : tensor<?x1x32xf32> loc("layers[5].attn.v_norm")
// CHECK: %[[QR:.+]] = gemma.rope %[[QN]], %[[B]] {active = 4 : i64, denom = 32 : i64, rot = 32 : i64, theta = 1.000000e+06 : f64} : tensor<?x4x32xf32> loc("layers[5].attn.rope"("q"))
// CHECK: %[[KR:.+]] = gemma.rope %[[KN]], %[[B]] {active = 4 : i64, denom = 32 : i64, rot = 32 : i64, theta = 1.000000e+06 : f64} : tensor<?x1x32xf32> loc("layers[5].attn.rope"("k"))
// CHECK: %[[C5:.+]] = gemma.cache_append %{{.+}}, %[[KR]], %[[VN]], %[[B]] : <@c5>, tensor<?x1x32xf32> loc("layers[5].attn.append")
// CHECK: %[[O:.+]] = gemma.gqa %[[QR]], %[[C5]], %[[B]] {kv_heads = 1 : i64, scale = 1.000000e+00 : f64} : tensor<?x4x32xf32>, <@c5> loc("layers[5].attn.core")
// CHECK: %[[J:.+]] = tensor.collapse_shape %[[O]] {{\[\[0\], \[1, 2\]\]}} : tensor<?x4x32xf32> into tensor<?x128xf32> loc("layers[5].attn.join_heads")
// CHECK: %[[A:.+]] = gemma.linear %[[J]], @l5.o : tensor<?x128xf32> -> tensor<?x96xf32> loc("layers[5].attn.o_proj")
// CHECK: %[[M:.+]] = gemma.rmsnorm %[[A]], @l5.post_mix_norm {eps = {{[0-9.E-]+}} : f64} : tensor<?x96xf32> loc("layers[5].post_mix_norm")
// CHECK: %[[R:.+]] = gemma.residual %[[X5]], %[[M]] : tensor<?x96xf32> loc("layers[5].attn_residual")
// CHECK: %[[P:.+]] = gemma.rmsnorm %[[R]], @l5.post_attn_norm {eps = {{[0-9.E-]+}} : f64} : tensor<?x96xf32> loc("layers[5].post_attn_norm")
// CHECK: %[[GU:.+]] = gemma.linear %[[P]], @l5.gate_up : tensor<?x96xf32> -> tensor<?x768xf32> loc("layers[5].mlp.gate_up")
// CHECK: %[[ACT:.+]] = gemma.gelu_mul %[[GU]] : tensor<?x768xf32> -> tensor<?x384xf32> loc("layers[5].mlp.act")
// CHECK: %[[D:.+]] = gemma.linear %[[ACT]], @l5.down : tensor<?x384xf32> -> tensor<?x96xf32> loc("layers[5].mlp.down")
// CHECK: %[[F:.+]] = gemma.rmsnorm %[[D]], @l5.post_ffn_norm {eps = {{[0-9.E-]+}} : f64} : tensor<?x96xf32> loc("layers[5].post_ffn_norm")
// CHECK: %[[Y5:.+]] = gemma.residual %[[R]], %[[F]] scale @l5.layer_scalar : tensor<?x96xf32> loc("layers[5].mlp_residual")

// CHECK: %[[LAST:.+]] = gemma.residual {{.*}} loc("layers[11].mlp_residual")
// CHECK: %[[SEL:.+]] = gemma.select_rows %[[LAST]], %[[ROWS]] : tensor<?x96xf32>, tensor<?xi32> -> tensor<?x96xf32> loc("select_rows")
// CHECK: %[[FN:.+]] = gemma.rmsnorm %[[SEL]], @final_norm {{.*}} : tensor<?x96xf32> loc("final_norm")
// CHECK: %[[Z:.+]] = gemma.lm_head %[[FN]], @embed_tokens {softcap = 3.000000e+01 : f64} : tensor<?x96xf32> -> tensor<?x512xf32> loc("lm_head")
// CHECK: return %[[Z]], %[[C0]], {{.*}}, %[[C5]],
