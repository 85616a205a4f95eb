// What a device of each CUDA architecture has, and how many blocks of a kernel a multiprocessor
// holds at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gemma::compiler {

/// Limits of a multiprocessor, from the table "Technical Specifications per Compute Capability" of
/// NVIDIA's CUDA C++ Programming Guide, and the device that times are modelled for, from its data
/// sheet (dense bf16 with f32 sums).
struct DeviceModel {
  std::string chip; ///< "sm_80"
  std::string device;
  int64_t processors = 0;
  int64_t warps = 0;                             ///< of a multiprocessor
  int64_t blocks = 0;                            ///< of a multiprocessor
  int64_t sharedBytes = 0;                       ///< of a multiprocessor
  double bytesPerSecond = 0, flopsPerSecond = 0; ///< assumed to be reached
  std::string source;                            ///< of these two
};

/// The model of an architecture, or null.
const DeviceModel *findDeviceModel(const std::string &chip);

/// What a block takes.
struct BlockNeeds {
  int64_t threads = 0;
  int64_t sharedBytes = 0;
  int64_t registers = 0; ///< a thread; 0: not known
};

/// Blocks that a multiprocessor holds at once, as the CUDA occupancy calculator counts: of 65536
/// registers a warp takes multiples of 256, in four equal parts of the processor; of shared memory
/// a block takes 1 KiB for the system, and multiples of 128 bytes.
int64_t blocksOfProcessor(const DeviceModel &device, const BlockNeeds &block);

} // namespace gemma::compiler
