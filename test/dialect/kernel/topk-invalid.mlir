// RUN: gemma-opt %s --split-input-file --verify-diagnostics

// topk_c1: rank
kernel.func @k(%x: memref<8xf32> {kernel.access = #kernel.access<read>}, %v: memref<?x4xf32> {kernel.access = #kernel.access<write>}, %i: memref<?x4xi32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected x of [R, V] floats, got 'memref<8xf32>'}}
    kernel.topk block %j ins(%x : memref<8xf32>) outs(%v, %i : memref<?x4xf32>, memref<?x4xi32>) k 4
  }
  kernel.return
}

// -----

// topk_c1: k
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %v: memref<?x4xf32> {kernel.access = #kernel.access<write>}, %i: memref<?x4xi32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected k in [1, 8], got 0}}
    kernel.topk block %j ins(%x : memref<?x8xf32>) outs(%v, %i : memref<?x4xf32>, memref<?x4xi32>) k 0
  }
  kernel.return
}

// -----

// topk_c2: values
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %v: memref<?x4xf64> {kernel.access = #kernel.access<write>}, %i: memref<?x4xi32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected values [R, 4] of 'f32', got 'memref<?x4xf64>'}}
    kernel.topk block %j ins(%x : memref<?x8xf32>) outs(%v, %i : memref<?x4xf64>, memref<?x4xi32>) k 4
  }
  kernel.return
}

// -----

// topk_c2: ids
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %v: memref<?x4xf32> {kernel.access = #kernel.access<write>}, %i: memref<?x5xi32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected ids [R, 4], got 'memref<?x5xi32>'}}
    kernel.topk block %j ins(%x : memref<?x8xf32>) outs(%v, %i : memref<?x4xf32>, memref<?x5xi32>) k 4
  }
  kernel.return
}

// -----

// topk_c3
kernel.func @k(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %b: memref<?x2x2xi32> {kernel.access = #kernel.access<read>}, %v: memref<?x4xf32> {kernel.access = #kernel.access<write>}, %i: memref<?x4xi32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected best of [R, G, 2] and k 1, got 'memref<?x2x2xi32>' and k 4}}
    kernel.topk block %j ins(%x : memref<?x8xf32>) best(%b : memref<?x2x2xi32>) outs(%v, %i : memref<?x4xf32>, memref<?x4xi32>) k 4
  }
  kernel.return
}
