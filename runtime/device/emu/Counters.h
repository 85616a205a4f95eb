// What an emulated launch did, in numbers that bound its speed on a device.
#pragma once

#include <cstdint>
#include <vector>

namespace gemma::emu {

struct Counters {
  // Always there.
  uint64_t blocks = 0;       ///< that ran
  uint64_t instructions = 0; ///< of all threads
  uint64_t maxBlockInstructions = 0;
  uint64_t barriers = 0; ///< block barriers completed
  uint64_t mmaFlops = 0; ///< issued: 2·m·n·k a warp and instruction
  uint64_t switches = 0; ///< of fibers: what emulation cost

  // With LaunchOptions::counters. Global memory is counted by warp: the loads, stores or copies of
  // one instruction by the lanes that executed it together.
  uint64_t globalReadBytes = 0; ///< asked for by threads
  uint64_t globalWriteBytes = 0;
  uint64_t globalUsefulBytes = 0;     ///< distinct bytes a warp instruction, reads and writes
  uint64_t globalSectors = 0;         ///< distinct 32-byte sectors a warp instruction
  uint64_t globalWideBytes = 0;       ///< of the useful bytes: by accesses of ≥ 16 bytes a thread
  uint64_t sharedWavefronts = 0;      ///< passes over the 32 banks of 4 bytes
  uint64_t sharedIdealWavefronts = 0; ///< the same without bank conflicts
  /// Bytes that one block had in flight (cp.async issued, not landed) when it came to each wait.
  std::vector<uint64_t> bytesInFlight;

  double sectorEfficiency() const {
    return globalSectors ? double(globalUsefulBytes) / (32.0 * double(globalSectors)) : 1.0;
  }
  double wideFraction() const {
    return globalUsefulBytes ? double(globalWideBytes) / double(globalUsefulBytes) : 1.0;
  }
  /// 0: no bank conflicts.
  double wavefrontExcess() const {
    return sharedIdealWavefronts ? double(sharedWavefronts) / double(sharedIdealWavefronts) - 1.0
                                 : 0.0;
  }
  /// Most instructions of a block over the mean.
  double blockBalance() const {
    return instructions ? double(maxBlockInstructions) * double(blocks) / double(instructions)
                        : 1.0;
  }
  /// The value below which a tenth of the waits lie; 0 if there was no wait.
  uint64_t bytesInFlightP10() const;

  void add(const Counters &other);
};

} // namespace gemma::emu
