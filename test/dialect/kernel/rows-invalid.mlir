// RUN: gemma-opt %s --split-input-file --verify-diagnostics

// rows_c1: a dimension without a block
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected a domain of 0 dimensions, 5 symbols and 4 results, got 1, 5 and 4}}
  kernel.rows domain affine_map<(j)[T, B, Q, S, R] -> (j, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return
}

// -----

// rows_c1: results
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected a domain of 0 dimensions, 5 symbols and 4 results, got 0, 5 and 2}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return
}

// -----

// rows_c2: a map too few
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected 2 maps, got 1}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return
}

// -----

// rows_c3: a dimension without a lookup
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected map 0 of 3 dimensions, 0 symbols and 2 results, got 4, 0 and 2}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e, l) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return
}

// -----

// rows_c3: rank
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected map 1 of 3 dimensions, 0 symbols and 2 results, got 3, 0 and 1}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (e)>] {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return
}

// -----

// rows_c4
kernel.func @k(%i: memref<4x4xi32> {kernel.access = #kernel.access<read>}, %x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected lookups of rank 1, got 'memref<4x4xi32>'}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T> lookup(%i : memref<4x4xi32>)
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e, l) -> (t, e)>, affine_map<(t, h, e, l) -> (t, e)>] {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return
}

// -----

// rows_c5: count
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected a body of 1 arguments, got 2}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%a: tensor<8xf32>, %b: f32):
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return
}

// -----

// rows_c5: narrower
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected argument 0 of the body to be a row or a scalar that holds 'f32', got 'tensor<8xbf16>'}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%a: tensor<8xbf16>):
    kernel.yield %a : tensor<8xbf16>
  }
  kernel.return
}

// -----

// rows_c5: rank
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected argument 0 of the body to be a row or a scalar that holds 'f32', got 'tensor<1x8xf32>'}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%a: tensor<1x8xf32>):
    kernel.yield %a : tensor<1x8xf32>
  }
  kernel.return
}

// -----

// rows_c6: count
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected to yield 1 values}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a, %a : tensor<8xf32>, tensor<8xf32>
  }
  kernel.return
}

// -----

// rows_c6: a scalar
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected to yield a row for 'memref<?x8xf32>', got 'f32'}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%a: tensor<8xf32>):
    %s = kernel.reduce add %a : tensor<8xf32>
    kernel.yield %s : f32
  }
  kernel.return
}

// -----

// rows_c7: another op
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%a: tensor<8xf32>):
    // expected-error @+1 {{cannot be in the body of a kernel.rows}}
    %b = tensor.empty() : tensor<8xf32>
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return
}

// -----

// rows_c7: a stride
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%a: tensor<8xf32>):
    // expected-error @+1 {{cannot be in the body of a kernel.rows}}
    %b = tensor.extract_slice %a[0] [4] [2] : tensor<8xf32> to tensor<4xf32>
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return
}

// -----

// rows_c2: no output
kernel.func @k() grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected an output}}
  "kernel.rows"() <{operandSegmentSizes = array<i32: 0, 0, 0, 0>,
      domain = affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)>, extent = #kernel.extent<T>, maps = []}> ({
    "kernel.yield"() : () -> ()
  }) : () -> ()
  kernel.return
}

// -----

// rows_c8: no such memory
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected swizzled memory 2 to be a memref of ... x R x 64 16-bit floats, R at most 8}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>]
    attributes {swizzled = array<i64: 2>} {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return
}

// -----

// rows_c8: another layout
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)> {
  // expected-error @+1 {{expected swizzled memory 0 to be a memref of ... x R x 64 16-bit floats, R at most 8}}
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>]
    attributes {swizzled = array<i64: 0>} {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a : tensor<8xf32>
  }
  kernel.return
}
