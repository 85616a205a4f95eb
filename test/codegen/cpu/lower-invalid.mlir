// RUN: gemma-opt %s --gemma-lower-kernels-to-host --split-input-file --verify-diagnostics

// What the lowering cannot do is said at the op; nothing half-lowered is left.

kernel.func @sliced_in_place(%x: memref<?x8xf32> {kernel.access = #kernel.access<readwrite>})
    grid affine_map<()[T, B, Q, S, R] -> (1)> {
  // expected-error @+1 {{overwrites an input that it reads at other elements}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%x : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%r: tensor<8xf32>):
    %a = tensor.extract_slice %r[0] [4] [1] : tensor<8xf32> to tensor<4xf32>
    %b = tensor.insert_slice %a into %r[4] [4] [1] : tensor<4xf32> into tensor<8xf32>
    kernel.yield %b : tensor<8xf32>
  }
  kernel.return
}

// -----

kernel.func @half_arithmetic(%x: memref<?x8xbf16> {kernel.access = #kernel.access<read>},
                             %y: memref<?x8xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (1)> {
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xbf16>) outs(%y : memref<?x8xbf16>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%r: tensor<8xbf16>):
    // expected-error @+1 {{computes with a 16-bit float; bodies widen to f32}}
    %s = arith.addf %r, %r : tensor<8xbf16>
    kernel.yield %s : tensor<8xbf16>
  }
  kernel.return
}

// -----

// Ranges other than the first would lack the scratch.
kernel.func @once_in_scratch(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (1)> {
  %s = kernel.scratch : memref<4x8xf32>
  // expected-error @+1 {{stores scratch once, which only GPU kernels do}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T> once
    ins(%x : memref<?x8xf32>) outs(%s, %y : memref<4x8xf32>, memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%r: tensor<8xf32>):
    kernel.yield %r, %r : tensor<8xf32>, tensor<8xf32>
  }
  kernel.return
}
