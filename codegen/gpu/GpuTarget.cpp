#include "codegen/gpu/GpuTarget.h"

namespace gemma::codegen {

const std::vector<GpuTarget> &gpuTargets() {
  // Shared memory of a block: CUDA C++ Programming Guide, technical specifications by compute
  // capability. The PTX version is the first that knows the architecture, 8.0 at least.
  static const std::vector<GpuTarget> targets = {
      {"sm_80", "+ptx80", 163 * 1024},
      {"sm_90", "+ptx80", 227 * 1024},
      {"sm_100", "+ptx86", 227 * 1024},
      {"sm_120", "+ptx87", 99 * 1024},
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
