// Runs the kernels of instruction sets that the processor lacks: their own tiles, loops and
// layouts, with every operation on wide registers made of operations on those that there are. What
// stays untested is LLVM's choice of instructions for the wider set.
#pragma once

#include "codegen/cpu/HostIsa.h"

namespace llvm {
class Module;
}

namespace gemma::codegen::test {

bool cpuRuns(const HostIsa &isa);

/// `isa` as kernels are built for it, to be compiled for the widest set that the processor runs.
HostIsa withFeaturesOfCpu(const HostIsa &isa);

/// Replaces the intrinsics that only AVX-512 has by plain IR, as Intel's manual defines them. An
/// unknown one fails the test.
void replaceWideInstructions(llvm::Module &module);

} // namespace gemma::codegen::test
