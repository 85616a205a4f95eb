// Entries of a row as 64-bit keys that order like (value, -column): all are different, so the
// largest does not depend on how threads and blocks share the row.
#pragma once

#include "codegen/gpu/GpuBuilder.h"

namespace gemma::codegen::cuda {

/// The key of an f32 in a column (i32). Its lower word is ~column; the upper one orders like the
/// value: NaN 0, below every number, and -0 like 0. No key is 0.
mlir::Value entryKey(GpuBuilder &b, mlir::Value value, mlir::Value column);

/// The column of a key, i32.
mlir::Value columnOfKey(GpuBuilder &b, mlir::Value key);

/// The largest key of each `lanes` neighbouring lanes (a power of two up to 32), in all of them.
/// Every lane of the warp must call this.
mlir::Value largestKeyOf(GpuBuilder &b, mlir::Value key, int64_t lanes);

} // namespace gemma::codegen::cuda
