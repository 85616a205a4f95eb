// The devices that one artifact carries GPU code for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gemma::codegen {

struct GpuTarget {
  std::string name; ///< ptxas's name of the architecture: "sm_80"
  /// The architecture that its PTX is written for: what runs there runs on all later ones.
  std::string written;
  int64_t sharedBytes; ///< the most shared memory that a block can have
};

/// sm_80, sm_90, sm_100, sm_120: all run the same kernels. PTX is written for no later architecture
/// than sm_90 (LLVM would use instructions on pairs of f32 from sm_100 on, which the emulated
/// device does not know), so that what is assembled has been executed.
const std::vector<GpuTarget> &gpuTargets();

/// The target of that name, or null.
const GpuTarget *findGpuTarget(const std::string &name);

} // namespace gemma::codegen
