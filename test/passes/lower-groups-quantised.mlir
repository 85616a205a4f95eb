// Projections whose weights are integers. Scales are a second argument. In decode of few tokens the rows
// are made codes before the grid, into scratch; elsewhere by a launch of its own, which names no node.
// RUN: gemma-opt --gemma-import="config=%data/models/narrow-12b/config.json weights=i4 embedding=i8" --gemma-phase-import --gemma-phase-optimize --gemma-phase-lower </dev/null | FileCheck %s
// RUN: gemma-opt --gemma-import="config=%data/models/narrow-12b/config.json weights=i8 codes=16" --gemma-phase-import --gemma-phase-optimize --gemma-phase-lower </dev/null | FileCheck %s --check-prefix=WORDS
// RUN: not gemma-opt --gemma-import="config=%data/models/narrow-12b/config.json weights=i8" --gemma-phase-import --gemma-phase-optimize=family=cuda --gemma-phase-lower </dev/null 2>&1 | FileCheck %s --check-prefix=CUDA

// CHECK: numerics<weights = i4, {{.*}}, embedding = i8, codes = i8>
// CHECK: program.weight @embed_tokens : tensor<[[V:[0-9]+]]x[[H:[0-9]+]]xi8> {{.*}} layout <panel = 16, kpack = 4, interleave = 1> packed memref<{{.*}}x8x16x4xi8>
// CHECK: program.weight @l0.input_norm : tensor<[[H]]xf32>
// CHECK: program.weight @l0.gate_up : tensor<{{.*}}xi4> {{.*}} layout <panel = 16, kpack = 4, interleave = 2> packed memref<{{.*}}x4x16x4xi8>

// CHECK: program.variant @decode_few
// CHECK: program.ref @l0.qkv lane "scales" : memref<{{.*}}x16xf16>
// CHECK-NOT: program.launch @quantize
// CHECK: program.variant @prefill
// CHECK: program.launch @quantize_{{[0-9a-f]+}}({{.*}}) : memref<?x[[H]]xf32>, memref<?x{{[0-9]+}}xi8>, memref<?x{{[0-9]+}}xf32>, memref<?x{{[0-9]+}}xi32>
// CHECK: program.launch @attn_qkv_proj

// A row of the table: codes and scales of its panel.
// CHECK: kernel.func @embed_
// CHECK: arith.extui %{{.*}} : tensor<[[H]]xi8> to tensor<[[H]]xi32>
// CHECK: arith.sitofp %{{.*}} : tensor<[[H]]xi32> to tensor<[[H]]xf32>

// CHECK: kernel.func @attn_qkv_proj
// CHECK: kernel.quantize ins(%{{.*}} : memref<1x[[H]]xf32>) outs({{.*}}) extent <T> zero 8
// CHECK-NEXT: kernel.grid
// CHECK-NEXT: kernel.contract {{.*}} act(%{{.*}} : memref<1x{{[0-9]+}}xi8>) {{.*}} quantised(
// CHECK: kernel.func @quantize_
// CHECK: kernel.quantize block %{{.*}} zero 8

// WORDS: numerics<weights = i8, {{.*}}, codes = i16>
// WORDS: kernel.quantize {{.*}}xi16>{{.*}} zero 128

// CUDA: expected 16-bit weights for tensor cores, got 'tensor<{{.*}}xi8>'
