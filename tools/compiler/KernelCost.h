// What one launch of a kernel has to move and to compute.
#pragma once

#include "dialect/kernel/Kernel.h"

namespace gemma::compiler {

/// The sizes of a step: the symbols of a kernel's grid.
struct StepSizes {
  int64_t tokens = 1;    ///< T
  int64_t sequences = 1; ///< B; all have as many new tokens
  int64_t longestRun = 1;
  int64_t longest = 1;   ///< S: positions of a sequence after the step; all have as many
  int64_t logitRows = 1; ///< R
};

struct KernelCost {
  double bytes = 0; ///< that pass between memory and the device at least once
  double flops = 0;
};

/// Blocks of the kernel's grid.
int64_t gridBlocks(kernel::FuncOp kernel, const StepSizes &sizes);

/// Compulsory bytes and FLOPs, from the kernel's core ops:
/// - contract: the packed weight once for every band of its raster, activations that the kernel
///   does not prepare, and results; 2 FLOPs a product
/// - attention: the keys and values of every visible position once, queries and results; 4 FLOPs a
///   lane of a visible (query, key) pair and head
/// - rows: every operand outside scratch, those without a token as long as they are; an op of the
///   body counts as one FLOP an element
/// - topk: the logits
/// Padding of tiles is not counted, nor what is read again from the device's caches.
KernelCost costOf(kernel::FuncOp kernel, const StepSizes &sizes);

/// Which instance of a kernel it is: "mma 64x8x64, 4 stages", "flash 1 queries, 32 keys, 2 stages",
/// "rows".
std::string instanceOf(kernel::FuncOp kernel);

} // namespace gemma::compiler
