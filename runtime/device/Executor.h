// Runs the launches of a step on one device.
#pragma once

#include "runtime/abi/KernelAbi.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <span>
#include <string>

namespace gemma {

/// A kernel over a grid of blocks.
struct KernelCall {
  size_t kernel = 0;                  ///< index into Program::kernels
  uint64_t blocks = 0;                ///< 0: nothing to do
  std::span<void *const> arguments;   ///< addresses on the device, in the kernel's order
  const GemmaSizes *sizes = nullptr;  ///< on the device too
  std::span<const std::string> nodes; ///< spec keys, for reports
};

namespace emu {
class EmuExecutor;
}

/// Belongs to one context, whose launches it runs one after another.
class Executor {
public:
  virtual ~Executor() = default;

  /// Says what of the memory kernels may touch, for devices that check. Before the first run().
  virtual Status declareMemory(const void *memory, size_t bytes, const std::string &name,
                               bool readOnly) {
    return {};
  }

  /// Returns when every block has ended and what it wrote can be read. An error is the device's or
  /// the kernel's fault, not the request's: what the step wrote is then worth nothing.
  virtual Status run(const KernelCall &call) = 0;

  /// This as the emulated device, for what only that can tell; null if it is another one.
  virtual emu::EmuExecutor *emulated() { return nullptr; }
};

} // namespace gemma
