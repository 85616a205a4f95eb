// Runs NVIDIA's assembler: PTX -> cubin, with what the kernel takes of a multiprocessor.
#pragma once

#include "runtime/support/Status.h"

#include <cstdint>
#include <string>

namespace gemma::codegen {

/// What `ptxas -v` says about a kernel.
struct PtxasReport {
  int64_t registers = 0;    ///< a thread
  int64_t staticShared = 0; ///< bytes a block, without the dynamic ones
  int64_t stackBytes = 0;   ///< a thread
  int64_t spillStores = 0;  ///< bytes
  int64_t spillLoads = 0;   ///< bytes
  std::string cubin;
};

/// The assembler's path: $GEMMA_PTXAS, then bin/ptxas of $CUDA_HOME, $CUDA_PATH, $CUDA_ROOT and
/// /usr/local/cuda, then PATH. Fails with where it was looked for, or if $GEMMA_PTXAS is no
/// program.
Expected<std::string> findPtxas();

/// Assembles one kernel for an architecture ("sm_80"). Fails when ptxas does, and, with the
/// kernel's name and the numbers, when the kernel spills registers or has local memory.
Expected<PtxasReport> assemble(const std::string &ptxas, const std::string &kernel,
                               const std::string &ptx, const std::string &chip);

/// Reads the text that `ptxas -v` prints for a file of one kernel; leaves cubin empty.
Expected<PtxasReport> parsePtxasReport(const std::string &text);

} // namespace gemma::codegen
