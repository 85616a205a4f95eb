// Who of several blocks is last: the one that puts together what each of them left in memory.
#pragma once

#include "codegen/gpu/GpuBuilder.h"

namespace gemma::codegen::cuda {

/// A word of shared memory through which a block's threads learn what its first thread found.
class LastArrival {
public:
  explicit LastArrival(GpuBuilder &b) : b(b), word(b.shared({1}, b.getI32Type())) {}

  /// Whether this block is the last of `count` (i32, at least 1) to arrive at ticket `at`, in all
  /// its threads, which must all call this. What any thread of the others stored before it arrived
  /// is then there to load. The ticket is zero again after the last one. Nobody waits for another
  /// block.
  mlir::Value arrive(const View &tickets, mlir::Value at, mlir::Value count);

private:
  GpuBuilder &b;
  View word;
};

} // namespace gemma::codegen::cuda
