// Which code paths of the GPU kernels the tests execute on the emulated device. What no record
// names has only been assembled.
#pragma once

#include "dialect/kernel/Kernel.h"

#include <optional>
#include <string>
#include <vector>

namespace gemma::compiler {

/// What a kernel's code depends on besides the numbers of its loops' turns: tile, stages, whether
/// blocks share work, sizes of heads, lengths of rows, element types. Kernels of different models
/// may have the same: "mma 64x8x64, 5 stages, shared, pairs, bf16 x bf16 -> bf16".
std::string signatureOf(kernel::FuncOp kernel);

/// A line of ExecutedKernels.txt, which the test ExecutedKernels.RecordIsCurrent holds to what the
/// tests do.
struct ExecutedKernel {
  std::string suite; ///< "everyday", or "long": with GEMMA_LONG_TESTS=1 alone
  std::string signature;
};
const std::vector<ExecutedKernel> &executedKernels();

/// The suite that executes this code path; nothing if none does.
std::optional<std::string> suiteThatExecutes(const std::string &signature);

} // namespace gemma::compiler
