#include "codegen/gpu/GpuTarget.h"

namespace gemma::codegen {

const std::vector<GpuTarget> &gpuTargets() {
  // Shared memory of a block: CUDA C++ Programming Guide, technical specifications by compute
  // capability.
  static const std::vector<GpuTarget> targets = {
      {"sm_80", "sm_80", 163 * 1024},
      {"sm_90", "sm_90", 227 * 1024},
      {"sm_100", "sm_90", 227 * 1024},
      {"sm_120", "sm_90", 99 * 1024},
  };
  return targets;
}

const GpuTarget *findGpuTarget(const std::string &name) {
  for (const GpuTarget &target : gpuTargets())
    if (target.name == name)
      return &target;
  return nullptr;
}

} // namespace gemma::codegen
