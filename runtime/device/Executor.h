// Runs the launches of a step on one device, and has the memory that they work on.
#pragma once

#include "runtime/abi/KernelAbi.h"
#include "runtime/support/Memory.h"
#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace gemma {

/// A kernel over a grid of blocks. What the spans and pointers refer to lives as long as the
/// executor.
struct KernelCall {
  size_t kernel = 0;   ///< index into Program::kernels
  uint64_t blocks = 0; ///< 0: nothing to do
  /// Blocks of the largest step that is to be launched as this one is, or no more than `blocks` if
  /// there is none; those from `blocks` on return at once.
  uint64_t mostBlocks = 0;
  std::span<void *const> arguments;   ///< addresses on the device, in the kernel's order
  const GemmaSizes *sizes = nullptr;  ///< on the device too
  std::span<const std::string> nodes; ///< spec keys, for reports
  // Host: worker w has the scratch memory from `scratch + w · scratchStride` on.
  std::byte *scratch = nullptr;
  uint64_t scratchStride = 0;
};

/// The memory of a context: bytes [0, n) on the device, and the host's view of them. Its first
/// bytes, as many as were asked to be visible, are what the host writes before a step and reads
/// after it. Where the host works on the device's memory, all addresses are the same memory.
struct ContextMemory {
  std::byte *device = nullptr;  ///< byte 0, for kernels; not for the host
  std::byte *visible = nullptr; ///< byte 0, for the host
  std::byte *rest = nullptr;    ///< the first byte that is not visible, for the host
};

/// What a device that checks has to know of some memory.
enum class MemoryContent : uint8_t {
  Constant, ///< what is there may be read, and kernels must not write it
  Known,    ///< what is there may be read
  Unknown,  ///< nothing is there: a read before a write is a fault
};

/// Bytes of a context's memory.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

namespace emu {
class EmuExecutor;
}

/// Belongs to one context, whose launches it runs one after another.
class Executor {
public:
  virtual ~Executor() = default;

  /// The memory of the context, zeroed, from the device; once, before everything else. Here: the
  /// host's memory, which the device shares.
  virtual Expected<ContextMemory> allocate(uint64_t bytes, uint64_t visible) {
    Expected<PageMemory> pages = PageMemory::allocate(bytes, "a context");
    if (!pages)
      return pages.status();
    if (Status status = pages->populate("a context"); !status)
      return status;
    shared = std::move(*pages);
    return ContextMemory{shared.data(), shared.data(), shared.data() + visible};
  }

  /// Says what of the memory kernels may touch, for devices that check. Before the first run().
  virtual Status declareMemory(const void * /*memory*/, size_t /*bytes*/,
                               const std::string & /*name*/, MemoryContent /*content*/) {
    return {};
  }

  /// Whether discard() says anything to it: asking costs less than finding out what to discard.
  virtual bool watchesReads() const { return false; }
  /// Says that what is in a part of the context's memory is of no more use: the next launch writes
  /// it anew before anything reads it.
  virtual void discard(ByteRange /*range*/) {}

  /// A step begins, whose launches see the first `inputBytes` as the host has left them. `variant`:
  /// steps with the same one have the same launches but for the numbers of blocks.
  virtual void begin(size_t variant, uint64_t inputBytes) {}

  /// Runs a launch after the ones before, at the latest in finish(). An error is the device's or
  /// the kernel's fault, not the request's: what the step wrote is then worth nothing.
  virtual Status run(const KernelCall &call) = 0;

  /// Returns when every launch has ended and the host can read `results`, which are visible bytes.
  /// To be called after an error of run() too. More launches of the step may follow.
  virtual Status finish(std::span<const ByteRange> /*results*/) { return {}; }

  /// This as the emulated device, for what only that can tell; null if it is another one.
  virtual emu::EmuExecutor *emulated() { return nullptr; }

  // For tests and diagnostics, between steps. Where the host shares the memory, bringing bytes from
  // one to the other is no work.
  /// Brings bytes from the device to the host's view.
  virtual Status download(ByteRange /*range*/) { return {}; }
  /// Brings bytes from the host's view to the device.
  virtual Status upload(ByteRange /*range*/) { return {}; }
  /// Sets bytes on the device. What is not zero is poison, which nobody may read.
  virtual Status fill(ByteRange range, uint8_t value) {
    std::memset(shared.data() + range.offset, value, size_t(range.bytes));
    return {};
  }

private:
  PageMemory shared;
};

} // namespace gemma
