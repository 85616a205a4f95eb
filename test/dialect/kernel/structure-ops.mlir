// RUN: gemma-opt %s --verify-roundtrip

// A prologue once a range, work a block, and memory of the worker between them.
kernel.func @scaled(%x: memref<?x96xbf16> {kernel.access = #kernel.access<read>}, %w: memref<96xf32> {kernel.access = #kernel.access<read>},
                    %s: memref<1xf32> {kernel.access = #kernel.access<read>}, %ids: memref<?xi32> {kernel.access = #kernel.access<read>}, %y: memref<?x96xf32> {kernel.access = #kernel.access<readwrite>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> attributes {hash = "0"} {
  %m = kernel.scratch : memref<4x96xf32>
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, 4, 0, 1)> extent <B> once
    ins(%w, %s : memref<96xf32>, memref<1xf32>) outs(%m : memref<4x96xf32>)
    maps [affine_map<(t, h, e) -> (e)>, affine_map<(t, h, e) -> (0)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%wr: tensor<96xf32>, %sr: f32):
    %0 = tensor.splat %sr : tensor<96xf32>
    %1 = arith.mulf %wr, %0 : tensor<96xf32>
    kernel.yield %1 : tensor<96xf32>
  }
  kernel.grid %j {
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 1)> extent <T>
      lookup(%ids : memref<?xi32>)
      ins(%x, %m : memref<?x96xbf16>, memref<4x96xf32>) outs(%y : memref<?x96xf32>)
      maps [affine_map<(t, h, e, id) -> (id, e)>, affine_map<(t, h, e, id) -> (0, e)>,
            affine_map<(t, h, e, id) -> (t, e)>] {
    ^bb0(%xr: tensor<96xf32>, %mr: tensor<96xf32>):
      %one = arith.constant 1.0 : f32
      %sum = kernel.reduce add %xr : tensor<96xf32>
      %max = kernel.reduce max %xr : tensor<96xf32>
      %d = arith.divf %sum, %max : f32
      %e = arith.addf %d, %one : f32
      %f = tensor.splat %e : tensor<48xf32>
      %g = tensor.extract_slice %mr[48] [48] [1] : tensor<96xf32> to tensor<48xf32>
      %h = math.tanh %g : tensor<48xf32>
      %i = arith.mulf %h, %f : tensor<48xf32>
      %k = tensor.insert_slice %i into %xr[0] [48] [1] : tensor<48xf32> into tensor<96xf32>
      kernel.yield %k : tensor<96xf32>
    }
  }
  kernel.return
}

// The smallest kernel: a row a block.
kernel.func @double(%x: memref<?x96xf32> {kernel.access = #kernel.access<read>},
                    %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 1)> extent <T>
      ins(%x : memref<?x96xf32>) outs(%y : memref<?x96xf32>)
      maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
    ^bb0(%xr: tensor<96xf32>):
      %yr = arith.addf %xr, %xr : tensor<96xf32>
      kernel.yield %yr : tensor<96xf32>
    }
  }
  kernel.return
}

// All rows in the prologue.
kernel.func @normalize(%x: memref<?x96xf32> {kernel.access = #kernel.access<read>},
                       %w: memref<96xf32> {kernel.access = #kernel.access<read>},
                       %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (1)> {
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x, %w : memref<?x96xf32>, memref<96xf32>) outs(%y : memref<?x96xf32>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%xr: tensor<96xf32>, %wr: tensor<96xf32>):
    %sq = arith.mulf %xr, %xr : tensor<96xf32>
    %ss = kernel.reduce add %sq : tensor<96xf32>
    %s = math.rsqrt %ss : f32
    %sr = tensor.splat %s : tensor<96xf32>
    %n = arith.mulf %xr, %sr : tensor<96xf32>
    %yr = arith.mulf %n, %wr : tensor<96xf32>
    kernel.yield %yr : tensor<96xf32>
  }
  kernel.return
}

// A GPU kernel: threads and shared memory of a block.
kernel.func @launched() grid affine_map<()[T, B, Q, S, R] -> (T)>
    attributes {launch = #kernel.launch<threads = 128, shared = 49152>} {
  %s = kernel.scratch : memref<8xf32>
  kernel.grid %j {
  }
  kernel.return
}
