// The emulated device as the device of a context.
#pragma once

#include "runtime/device/Executor.h"
#include "runtime/device/emu/Launch.h"

#include <functional>
#include <vector>

namespace gemma::emu {

/// A kernel of a program and how it is launched.
struct EmulatedKernel {
  Module module; ///< holds it
  std::string name;
  uint32_t threads = 0;     ///< of a block
  uint32_t sharedBytes = 0; ///< dynamic, of a block
};

/// Which blocks of each launch run, and who hears what they did. For measuring: what a step
/// computes from launches that did not run is worth nothing.
struct Measurement {
  /// Linear numbers of blocks below call.blocks; none: the launch is skipped.
  std::function<std::vector<uint64_t>(const KernelCall &call)> blocks;
  /// Told after a launch that ran; its counters include the memory's.
  std::function<void(const KernelCall &call, const LaunchReport &report)> report;
};

class EmuExecutor : public Executor {
public:
  /// `kernels`, one a kernel of the program, outlive the executor.
  EmuExecutor(std::span<const EmulatedKernel> kernels, unsigned threads, LaunchOptions options)
      : kernels(kernels), pool(threads), options(std::move(options)) {}

  Expected<ContextMemory> allocate(uint64_t bytes, uint64_t visible) override;
  Status declareMemory(const void *memory, size_t bytes, const std::string &name,
                       MemoryContent content) override;
  bool watchesReads() const override { return options.checkRaces; }
  void discard(ByteRange range) override;
  void begin(size_t variant, uint64_t inputBytes) override;
  /// Fails with what the detectors found: kernel, PTX line, spec node.
  Status run(const KernelCall &call) override;
  Status fill(ByteRange range, uint8_t value) override;
  EmuExecutor *emulated() override { return this; }

  /// What kernels may touch, and what of it was written.
  const GlobalMemory &globalMemory() const { return memory; }

  /// From now on; without functions everything runs again.
  void measure(Measurement how) { measurement = std::move(how); }

private:
  std::span<const EmulatedKernel> kernels;
  WorkerPool pool;
  LaunchOptions options;
  GlobalMemory memory;
  std::byte *context = nullptr; ///< the memory of the context
  Measurement measurement;
};

/// What a kernel's instructions compute, in the names of one launch. `ofKernel` names the nodes of
/// the layer that the kernel was compiled for, each maybe several joined by " + "; those of a
/// launch for another layer differ in its number alone.
std::vector<std::string> nodesOfLaunch(std::span<const std::string> ofKernel,
                                       std::span<const std::string> ofLaunch);

/// Launch options from the environment: GEMMA_EMU="order=reverse,async=random,seed=7". Any of
/// order = forward, reverse, random; async = latest, earliest, random; seed = a number; mma =
/// nearest, truncate; checks = on, off.
Expected<LaunchOptions> launchOptionsFrom(std::string_view text);

} // namespace gemma::emu
