// Rows that are passed on through memory stay in registers.
// RUN: gemma-opt %s --split-input-file --pass-pipeline="builtin.module(kernel.func(gemma-fuse-rows))" | FileCheck %s

// A norm, a residual that one block stores, and a norm of it: one op, whose rows in scratch are the last
// ones alone. The input of both is read once.
#rows = affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)>
#row = affine_map<(t, h, e) -> (t, e)>
#vector = affine_map<(t, h, e) -> (e)>
// CHECK-LABEL: kernel.func @chain
// CHECK-NEXT: %[[S:.*]] = kernel.scratch : memref<2x8xf32>
// CHECK-NEXT: kernel.rows domain #{{.*}} extent <T> once
// CHECK-SAME: ins(%arg0, %arg1, %arg2 : memref<?x8xf32>, memref<8xf32>, memref<?x8xf32>)
// CHECK-SAME: outs(%arg3, %[[S]] : memref<?x8xf32>, memref<2x8xf32>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<8xf32>, %[[W:.*]]: tensor<8xf32>, %[[H:.*]]: tensor<8xf32>):
// CHECK-NEXT: %[[N:.*]] = arith.mulf %[[X]], %[[W]]
// CHECK-NEXT: %[[Y:.*]] = arith.addf %[[N]], %[[H]]
// CHECK-NEXT: %[[Z:.*]] = arith.mulf %[[Y]], %[[W]]
// CHECK-NEXT: kernel.yield %[[Y]], %[[Z]]
// CHECK: kernel.grid
// CHECK: kernel.rows block
kernel.func @chain(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %w: memref<8xf32> {kernel.access = #kernel.access<read>}, %h: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<write>}, %out: memref<?x8xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> attributes {launch = #kernel.launch<threads = 32, shared = 1024>} {
  %0 = kernel.scratch : memref<2x8xf32>
  %1 = kernel.scratch : memref<2x8xf32>
  %2 = kernel.scratch : memref<2x8xf32>
  kernel.rows domain #rows extent <T> ins(%x, %w : memref<?x8xf32>, memref<8xf32>) outs(%0 : memref<2x8xf32>) maps [#row, #vector, #row] {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    %c = arith.mulf %a, %b : tensor<8xf32>
    kernel.yield %c : tensor<8xf32>
  }
  kernel.rows domain #rows extent <T> ins(%0, %h : memref<2x8xf32>, memref<?x8xf32>) outs(%1 : memref<2x8xf32>) maps [#row, #row, #row] {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    %c = arith.addf %a, %b : tensor<8xf32>
    kernel.yield %c : tensor<8xf32>
  }
  kernel.rows domain #rows extent <T> once ins(%1 : memref<2x8xf32>) outs(%y : memref<?x8xf32>) maps [#row, #row] {
  ^bb0(%a: tensor<8xf32>):
    kernel.yield %a : tensor<8xf32>
  }
  kernel.rows domain #rows extent <T> ins(%1, %w : memref<2x8xf32>, memref<8xf32>) outs(%2 : memref<2x8xf32>) maps [#row, #vector, #row] {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    %c = arith.mulf %a, %b : tensor<8xf32>
    kernel.yield %c : tensor<8xf32>
  }
  kernel.grid %j {
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 1)> extent <T>
      ins(%2 : memref<2x8xf32>) outs(%out : memref<?x8xf32>) maps [#row, #row] {
    ^bb0(%a: tensor<8xf32>):
      kernel.yield %a : tensor<8xf32>
    }
  }
  kernel.return
}

// -----

// Both have lookups: the second's maps take the places of its own. The op between them stays, as
// nobody's rows are in its way.
#one = affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 1)>
// CHECK-LABEL: kernel.func @lookups
// CHECK: kernel.rows block %{{.*}} lookup(%arg0, %arg1 : memref<?xi32>, memref<?xi32>)
// CHECK-SAME: ins(%arg2 : memref<16x8xf32>) outs(%arg3, %arg4 : memref<?x8xf32>, memref<16x8xf32>)
// CHECK-SAME: maps [#[[FROM:.*]], #[[ROW:.*]], #[[TO:.*]]]
// CHECK: kernel.rows block
// CHECK-NOT: kernel.rows
kernel.func @lookups(%from: memref<?xi32> {kernel.access = #kernel.access<read>}, %to: memref<?xi32> {kernel.access = #kernel.access<read>}, %x: memref<16x8xf32> {kernel.access = #kernel.access<read>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<readwrite>}, %z: memref<16x8xf32> {kernel.access = #kernel.access<write>}, %u: memref<?x8xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> attributes {launch = #kernel.launch<threads = 32, shared = 0>} {
  kernel.grid %j {
    kernel.rows block %j domain #one extent <T> lookup(%from : memref<?xi32>) ins(%x : memref<16x8xf32>) outs(%y : memref<?x8xf32>)
      maps [affine_map<(t, h, e, l) -> (l, e)>, affine_map<(t, h, e, l) -> (t, e)>] {
    ^bb0(%a: tensor<8xf32>):
      kernel.yield %a : tensor<8xf32>
    }
    kernel.rows block %j domain #one extent <T> ins(%x : memref<16x8xf32>) outs(%u : memref<?x8xf32>)
      maps [affine_map<(t, h, e) -> (0, e)>, affine_map<(t, h, e) -> (t, e)>] {
    ^bb0(%a: tensor<8xf32>):
      kernel.yield %a : tensor<8xf32>
    }
    kernel.rows block %j domain #one extent <T> lookup(%to : memref<?xi32>) ins(%y : memref<?x8xf32>) outs(%z : memref<16x8xf32>)
      maps [affine_map<(t, h, e, l) -> (t, e)>, affine_map<(t, h, e, l) -> (l, e)>] {
    ^bb0(%a: tensor<8xf32>):
      kernel.yield %a : tensor<8xf32>
    }
  }
  kernel.return
}

// -----

// What memory rounds, other elements of a row, and rows of another domain are read from memory.
#one = affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 1)>
#all = affine_map<(j)[T, B, Q, S, R] -> (0, T, 0, 1)>
#row = affine_map<(t, h, e) -> (t, e)>
#from4 = affine_map<(t, h, e) -> (t, e + 4)>
// CHECK-LABEL: kernel.func @apart
// CHECK-COUNT-4: kernel.rows
kernel.func @apart(%x: memref<?x8xf32> {kernel.access = #kernel.access<read>}, %half: memref<?x8xbf16> {kernel.access = #kernel.access<readwrite>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<readwrite>}, %z: memref<?x8xf32> {kernel.access = #kernel.access<readwrite>}, %u: memref<?x4xf32> {kernel.access = #kernel.access<write>}, %v: memref<?x8xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> attributes {launch = #kernel.launch<threads = 32, shared = 0>} {
  kernel.grid %j {
    kernel.rows block %j domain #one extent <T> ins(%x : memref<?x8xf32>) outs(%half : memref<?x8xbf16>) maps [#row, #row] {
    ^bb0(%a: tensor<8xf32>):
      kernel.yield %a : tensor<8xf32>
    }
    kernel.rows block %j domain #one extent <T> ins(%half : memref<?x8xbf16>) outs(%y : memref<?x8xf32>) maps [#row, #row] {
    ^bb0(%a: tensor<8xf32>):
      kernel.yield %a : tensor<8xf32>
    }
    kernel.rows block %j domain #one extent <T> ins(%y : memref<?x8xf32>) outs(%u : memref<?x4xf32>) maps [#from4, #row] {
    ^bb0(%a: tensor<4xf32>):
      kernel.yield %a : tensor<4xf32>
    }
    kernel.rows block %j domain #all extent <T> ins(%y : memref<?x8xf32>) outs(%v : memref<?x8xf32>) maps [#row, #row] {
    ^bb0(%a: tensor<8xf32>):
      kernel.yield %a : tensor<8xf32>
    }
  }
  kernel.return
}

// -----

// What lies between writes what the second op reads; the second op overwrites what the first reads; rows in place.
#one = affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 1)>
#row = affine_map<(t, h, e) -> (t, e)>
// CHECK-LABEL: kernel.func @conflicts
// CHECK-COUNT-5: kernel.rows
kernel.func @conflicts(%x: memref<?x8xf32> {kernel.access = #kernel.access<readwrite>}, %y: memref<?x8xf32> {kernel.access = #kernel.access<readwrite>}, %z: memref<?x8xf32> {kernel.access = #kernel.access<readwrite>}, %u: memref<?x8xf32> {kernel.access = #kernel.access<read>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> attributes {launch = #kernel.launch<threads = 32, shared = 0>} {
  kernel.grid %j {
    kernel.rows block %j domain #one extent <T> ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>) maps [#row, #row] {
    ^bb0(%a: tensor<8xf32>):
      kernel.yield %a : tensor<8xf32>
    }
    kernel.rows block %j domain #one extent <T> ins(%u : memref<?x8xf32>) outs(%z : memref<?x8xf32>) maps [#row, #row] {
    ^bb0(%a: tensor<8xf32>):
      kernel.yield %a : tensor<8xf32>
    }
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T> ins(%u : memref<?x8xf32>) outs(%z : memref<?x8xf32>) maps [#row, #row] {
    ^bb0(%a: tensor<8xf32>):
      kernel.yield %a : tensor<8xf32>
    }
    kernel.rows block %j domain #one extent <T> ins(%y, %z : memref<?x8xf32>, memref<?x8xf32>) outs(%x : memref<?x8xf32>) maps [#row, #row, #row] {
    ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
      %c = arith.addf %a, %b : tensor<8xf32>
      kernel.yield %c : tensor<8xf32>
    }
    kernel.rows block %j domain #one extent <T> ins(%y : memref<?x8xf32>) outs(%y : memref<?x8xf32>) maps [#row, #row] {
    ^bb0(%a: tensor<8xf32>):
      kernel.yield %a : tensor<8xf32>
    }
  }
  kernel.return
}
