// The emulated device as the device of a context.
#pragma once

#include "runtime/device/Executor.h"
#include "runtime/device/emu/Launch.h"

#include <vector>

namespace gemma::emu {

/// A kernel of a program and how it is launched.
struct EmulatedKernel {
  Module module; ///< holds it
  std::string name;
  uint32_t threads = 0;     ///< of a block
  uint32_t sharedBytes = 0; ///< dynamic, of a block
};

class EmuExecutor : public Executor {
public:
  /// `kernels`, one a kernel of the program, outlive the executor.
  EmuExecutor(std::span<const EmulatedKernel> kernels, unsigned threads, LaunchOptions options)
      : kernels(kernels), pool(threads), options(std::move(options)) {}

  Status declareMemory(const void *memory, size_t bytes, const std::string &name,
                       bool readOnly) override;
  /// Fails with what the detectors found: kernel, PTX line, spec node.
  Status run(const KernelCall &call) override;

private:
  std::span<const EmulatedKernel> kernels;
  WorkerPool pool;
  LaunchOptions options;
  GlobalMemory memory;
};

/// Launch options from the environment: GEMMA_EMU="order=reverse,async=random,seed=7". Any of
/// order = forward, reverse, random; async = latest, earliest, random; seed = a number; checks =
/// on, off.
Expected<LaunchOptions> launchOptionsFrom(std::string_view text);

} // namespace gemma::emu
