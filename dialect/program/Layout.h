// Memory layouts of weights, shared by verifiers, lowering and packing.
#pragma once

#include "dialect/program/Program.h"

namespace gemma::program {

/// Columns of an i8 or i4 weight that share a scale.
inline constexpr int64_t kGroupColumns = 32;

/// Whether elements of this type are integers that a group's scale multiplies.
bool isQuantised(mlir::Type element);

/// The memref that kernels see of a weight of type `logical`, [N, K] or [N]:
///   panel = 0                  memref<N x K x T>, memref<N x T>
///   panel = 16, kpack = 1      memref<ceil(N/16) x K x 16 x T>
///   panel = 16, kpack = 2      memref<ceil(N/16) x ceil(K/2) x 16 x 2 x T>
///   panel = 16, kpack = 4      memref<ceil(N/16) x ceil(K/32) x 8 x 16 x 4 x i8> of i8: w + 128;
///                              quad j of a group holds k = 4j..4j+3
///                              memref<ceil(N/16) x ceil(K/32) x 4 x 16 x 4 x i8> of i4: w + 8,
///                              quad j in the lower half of a byte, quad j + 4 in the upper one
///   panel = 8, kpack = 64      memref<ceil(K/64) x ceil(N/8) x 8 x 64 x T>, swizzled
///   interleave = 2             each half of the rows is padded to whole panels: 2 · ceil(N/2/16)
///   of
///                              them, those of the first half even, those of the second odd
/// Null if the layout does not fit the type: panels need [N, K], interleaving an even N.
mlir::MemRefType packedType(mlir::RankedTensorType logical, LayoutAttr layout);

/// The scales of a quantised weight, memref<panels x ceil(K/32) x 16 x f16>, and the byte at which
/// they begin: the next multiple of 64 behind the codes, which are `packed`.
mlir::MemRefType scalesType(mlir::MemRefType packed);
int64_t scalesOffset(mlir::MemRefType packed);

/// Where element [row, k] lies in that memref, for a layout that does not interleave; where chunks
/// are swizzled, before that. For i4 elements k mod 32 must be
/// below 16: the byte's upper half is element k + 16.
llvm::SmallVector<mlir::AffineExpr> packedIndices(LayoutAttr layout, mlir::AffineExpr row,
                                                  mlir::AffineExpr k);

} // namespace gemma::program
