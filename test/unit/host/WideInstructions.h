// Runs AVX-512's kernels on a processor that has AVX2 alone: their own tiles, loops and layouts,
// with every operation on wide registers made of narrower ones. What stays untested there is LLVM's
// choice of instructions and registers for AVX-512: the tests of whole models' code (hot-loops)
// look at that.
#pragma once

#include "codegen/cpu/HostIsa.h"

#include <optional>

namespace llvm {
class Module;
}

namespace gemma::codegen::test {

bool cpuRuns(const HostIsa &isa);

/// `isa`, which the processor lacks, as kernels are built for it, but to be compiled for what it
/// has; null if that is too little.
std::optional<HostIsa> standIn(const HostIsa &isa);

/// Replaces the intrinsics that only AVX-512 has by plain IR, as Intel's manual defines them. An
/// unknown one fails the test.
void replaceWideInstructions(llvm::Module &module);

} // namespace gemma::codegen::test
