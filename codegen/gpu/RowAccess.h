// How a chunk of a row lies in memory: what decides the width of its loads and stores.
#pragma once

#include "codegen/gpu/GpuBuilder.h"

namespace gemma::codegen::cuda {

constexpr unsigned elementDim = 2; ///< e in (t, h, e, l0, ...)

/// An input or output of kernel.rows: its memory and the map from (t, h, e, lookups) into it.
///
/// A chunk is `width` elements that begin at `offset` plus a multiple of `width`.
struct RowAccess {
  View view;
  mlir::AffineMap map;
  bool swizzled = false;

  /// Elements of memory from one element of a chunk to the next: 1 if they lie side by side, 0 if
  /// all are the same one; nothing if that differs from step to step.
  std::optional<int64_t> stride(int64_t width, int64_t offset) const;

  /// Bytes that the address of a chunk's first element is a multiple of; at most 16.
  int64_t alignment(int64_t width, int64_t offset) const;
};

} // namespace gemma::codegen::cuda
