// The devices that one artifact carries GPU code for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gemma::codegen {

struct GpuTarget {
  std::string name;     ///< ptxas's and LLVM's name of the architecture: "sm_80"
  std::string features; ///< LLVM feature string: the PTX version
  int64_t sharedBytes;  ///< the most shared memory that a block can have
};

/// sm_80, sm_90, sm_100, sm_120: all run the same kernels.
const std::vector<GpuTarget> &gpuTargets();

/// The target of that name, or null.
const GpuTarget *findGpuTarget(const std::string &name);

} // namespace gemma::codegen
