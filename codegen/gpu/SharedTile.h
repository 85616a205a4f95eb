// Shared memory as rows of 16-byte chunks.
#pragma once

#include "codegen/gpu/GpuBuilder.h"

namespace gemma::codegen::cuda {

constexpr int64_t chunkBytes = 16;

/// Chunks are moved within their row so that the same chunk of eight rows in a row lies in
/// different banks, which is what ldmatrix reads at a time.
struct SharedTile {
  View memory;
  int64_t rowBytes = 0;

  /// `rows` rows for each of `count` slots.
  static SharedTile create(GpuBuilder &b, int64_t rows, int64_t rowBytes, int64_t count) {
    return {b.shared({count * rows * rowBytes}, b.getI8Type()), rowBytes};
  }

  /// The byte of a row's chunk.
  mlir::Value place(GpuBuilder &b, mlir::Value row, mlir::Value chunk) const {
    int64_t n = rowBytes / chunkBytes;
    if (n % 8 == 0)
      chunk = b.bitXor(chunk, b.mod(row, 8));
    else if (n == 4)
      chunk = b.bitXor(chunk, b.mod(b.floorDiv(row, 2), 4));
    else if (n == 2)
      chunk = b.bitXor(chunk, b.mod(b.floorDiv(row, 4), 2));
    return b.add(b.mul(row, rowBytes), b.mul(chunk, chunkBytes));
  }

  mlir::Value pointer(GpuBuilder &b, mlir::Value row, mlir::Value chunk) const {
    return b.sharedPointer(memory, place(b, row, chunk));
  }

  /// Of `width` elements of 16 bits, which lie in one chunk.
  mlir::Value lanesPointer(GpuBuilder &b, mlir::Value row, mlir::Value lane, int64_t width) const {
    return width == 8 ? pointer(b, row, b.floorDiv(lane, 8)) : elementPointer(b, row, lane);
  }

  /// Of an element of 16 bits.
  mlir::Value elementPointer(GpuBuilder &b, mlir::Value row, mlir::Value column) const {
    mlir::Value chunk = place(b, row, b.floorDiv(column, 8));
    return b.sharedPointer(memory, b.add(chunk, b.mul(b.mod(column, 8), 2)));
  }
};

} // namespace gemma::codegen::cuda
