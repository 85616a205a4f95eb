// Which of a program's kernel binaries runs on a device, and loading it.
#pragma once

#include "runtime/device/cuda/Device.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gemma::cuda {

/// A kernel's code to choose from.
struct KernelImage {
  bool ptx = false;        ///< text that the driver compiles; otherwise machine code
  std::string_view target; ///< machine code: its architecture, "sm_80". PTX says it itself
  std::string_view kernel; ///< that it holds
  std::string_view bytes;
};

/// How a kernel is launched.
struct KernelNeed {
  std::string name;
  uint64_t threads = 0;     ///< of a block
  uint64_t sharedBytes = 0; ///< dynamic, of a block
};

/// A kernel on the device.
struct LoadedKernel {
  KernelNeed need;
  Owned<ModuleHandle> module;
  FunctionHandle function = nullptr;
};

struct LoadedKernels {
  std::vector<LoadedKernel> kernels; ///< one a need, in order
  std::string code;                  ///< what was taken, for people: "sm_90", "PTX for sm_80"
};

/// An architecture's name, "sm_90" or "sm_90a".
struct Architecture {
  int major = 0, minor = 0;
  bool specific = false; ///< "a" or "f": for this very architecture or family alone

  static std::optional<Architecture> parse(std::string_view name);
  /// Whether machine code for it runs on a device: the same major number, no higher minor one.
  bool runsOn(int deviceMajor, int deviceMinor) const;
  /// Whether PTX for it can be compiled for a device: any that is not older.
  bool compilesFor(int deviceMajor, int deviceMinor) const;
};

/// The architecture that a PTX text is for; nothing if it does not say.
std::string_view ptxTarget(std::string_view ptx);

/// Loads all kernels. The code of the newest architecture that runs on the device is taken, else
/// PTX. Where the driver does not know a code's format (made by a newer compiler), the next one is
/// tried. Refused with what there is and what the device is: no code that fits; more threads or
/// shared memory than the device gives a block.
Expected<LoadedKernels> loadKernels(const std::shared_ptr<const Device> &device,
                                    std::span<const KernelImage> images,
                                    std::span<const KernelNeed> needs);

} // namespace gemma::cuda
