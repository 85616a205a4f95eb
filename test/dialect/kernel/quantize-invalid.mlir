// RUN: gemma-opt %s --split-input-file --verify-diagnostics

// quantize_c1
kernel.func @k(%x: memref<?x63xi32> {kernel.access = #kernel.access<read>}, %c: memref<?x64xi8> {kernel.access = #kernel.access<write>}, %s: memref<?x2xf32> {kernel.access = #kernel.access<write>}, %n: memref<?x2xi32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected x of [T, K] floats with static K, got 'memref<?x63xi32>'}}
    kernel.quantize block %j ins(%x : memref<?x63xi32>)
      outs(%c, %s, %n : memref<?x64xi8>, memref<?x2xf32>, memref<?x2xi32>) extent <T> zero 128
  }
  kernel.return
}

// -----

// quantize_c2
kernel.func @k(%x: memref<?x63xf32> {kernel.access = #kernel.access<read>}, %c: memref<?x63xi8> {kernel.access = #kernel.access<write>}, %s: memref<?x2xf32> {kernel.access = #kernel.access<write>}, %n: memref<?x2xi32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected codes [T, 64] of i8 or i16, scales and starts [T, 2], got 'memref<?x63xi8>'}}
    kernel.quantize block %j ins(%x : memref<?x63xf32>)
      outs(%c, %s, %n : memref<?x63xi8>, memref<?x2xf32>, memref<?x2xi32>) extent <T> zero 128
  }
  kernel.return
}

// -----

// quantize_c3
kernel.func @k(%x: memref<?x63xf32> {kernel.access = #kernel.access<read>}, %c: memref<?x64xi8> {kernel.access = #kernel.access<write>}, %s: memref<?x2xf32> {kernel.access = #kernel.access<write>}, %n: memref<?x2xi32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    // expected-error @+1 {{expected zero 8 or 128, got 0}}
    kernel.quantize block %j ins(%x : memref<?x63xf32>)
      outs(%c, %s, %n : memref<?x64xi8>, memref<?x2xf32>, memref<?x2xi32>) extent <T> zero 0
  }
  kernel.return
}
