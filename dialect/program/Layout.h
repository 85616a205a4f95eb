// Memory layouts of weights, shared by verifiers, lowering and packing.
#pragma once

#include "dialect/program/Program.h"

namespace gemma::program {

/// The memref that kernels see of a weight of type `logical`, [N, K] or [N]:
///   panel = 0                  memref<N x K x T>, memref<N x T>
///   panel = 16, kpack = 1      memref<ceil(N/16) x K x 16 x T>
///   panel = 16, kpack = 2      memref<ceil(N/16) x ceil(K/2) x 16 x 2 x T>
///   panel = 8, kpack = 64      memref<ceil(K/64) x ceil(N/8) x 8 x 64 x T>, swizzled
///   interleave = 2             each half of the rows is padded to whole panels: 2 · ceil(N/2/16)
///   of
///                              them, those of the first half even, those of the second odd
/// Null if the layout does not fit the type: panels need [N, K], interleaving an even N.
mlir::MemRefType packedType(mlir::RankedTensorType logical, LayoutAttr layout);

/// Where element [row, k] lies in that memref, for a layout that does not interleave; where chunks
/// are swizzled, before that.
llvm::SmallVector<mlir::AffineExpr> packedIndices(LayoutAttr layout, mlir::AffineExpr row,
                                                  mlir::AffineExpr k);

} // namespace gemma::program
