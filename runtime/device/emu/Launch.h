// The emulated device: executes kernels made from PTX on the host, and says what they do wrong.
//
// How to use it:
//
//   #include "codegen/emu/EmuCodegen.h"          // compiler side, LLVM
//   #include "runtime/device/emu/Launch.h"       // this side, no LLVM
//
//   Expected<codegen::EmuObject> object = codegen::compilePtx(ptxText);
//   Expected<emu::Module> module = emu::Module::load(object->bytes, "attention.ptx");
//   emu::GlobalMemory memory;                    // or memory.add(arena, bytes, "arena")
//   Expected<void *> x = memory.allocate(4096, "x");
//   emu::ParamBuilder params;                    // in the kernel's order, PTX's layout
//   params.add(*x).add(uint32_t(7));
//   WorkerPool pool(WorkerPool::availableThreads());
//   emu::LaunchOptions options;
//   options.node = "layers[3].attn.core";
//   Expected<emu::LaunchReport> report =
//       emu::launch(*module, "attention", {64, 8, 1}, {128, 1, 1}, 98304, params.bytes(), memory,
//                   pool, options);
//   if (!report->findings.empty()) ...           // findings[i].message()
//
// An Expected without a value means that the request itself was wrong (no such kernel, sizes). What
// a kernel does wrong is a finding. After a finding that makes going on pointless (out of bounds,
// divergent barrier, no progress, trap) the launch stops and `completed` is false.
#pragma once

#include "runtime/device/WorkerPool.h"
#include "runtime/device/emu/Counters.h"
#include "runtime/device/emu/EmuModule.h"
#include "runtime/device/emu/Findings.h"
#include "runtime/device/emu/GlobalMemory.h"
#include "runtime/support/Status.h"

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace gemma::emu {

/// Which waiting thread, and which waiting block, goes on first.
enum class Order {
  Forward, ///< in order of their numbers, each in its turn
  Reverse, ///< the last first, and one thread as far as it gets
  Random,  ///< by the seed
};

/// When the effect of a cp.async becomes visible.
enum class AsyncMode {
  Latest,   ///< at the wait, when its source is read too
  Earliest, ///< at once
  Random,   ///< by the seed, anywhere in between
};

/// How matrix products round. Devices keep a few bits more than f32 while they add, and cut off
/// the rest, in ways that differ between generations; results must be good with either.
enum class MmaRounding {
  Nearest,   ///< f32 additions one after another
  Truncated, ///< terms cut to 2 bits more than the largest has, one exact sum, cut to f32
};

struct LaunchOptions {
  Order order = Order::Forward;
  AsyncMode asyncMode = AsyncMode::Latest;
  uint64_t seed = 0; ///< of the random order and mode
  std::string node;  ///< spec node(s), for reports
  /// Finer: what the PTX after `.loc 1 i 0` computes is nodes[i - 1] (codegen::PtxKernel::nodes).
  std::vector<std::string> nodes;
  /// Linear numbers (x fastest) of the blocks to run; empty: all.
  std::vector<uint64_t> sampledBlocks;
  bool checkBounds = true; ///< bounds, alignment, read-only memory
  bool checkRaces = true;  ///< races, never-written and not-yet-waited bytes
  bool counters = false;   ///< memory counters of the report; instructions are always counted
  MmaRounding mmaRounding = MmaRounding::Nearest;
  /// Instructions that one thread may execute before the launch counts as stuck.
  uint64_t instructionLimit = uint64_t(1) << 32;
};

struct LaunchReport {
  bool completed = true; ///< every block ran to its end
  std::vector<Finding> findings;
  Counters counters;
  /// Of all findings, one a line; empty if there are none.
  std::string messages() const;
};

/// Runs a kernel over a grid and returns when all blocks have ended. `params` are the parameters in
/// PTX's layout (each aligned to its size). Not to be called by two threads with the same pool.
Expected<LaunchReport> launch(const Module &module, std::string_view kernel,
                              std::array<uint32_t, 3> grid, std::array<uint32_t, 3> block,
                              uint32_t dynamicSharedBytes, std::span<const std::byte> params,
                              const GlobalMemory &memory, WorkerPool &pool,
                              const LaunchOptions &options = {});

/// Lays parameters out as PTX does: each at a multiple of its size.
class ParamBuilder {
public:
  template <typename T> ParamBuilder &add(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    size_t offset = (data.size() + alignof(T) - 1) / alignof(T) * alignof(T);
    data.resize(offset + sizeof(T));
    std::memcpy(data.data() + offset, static_cast<const void *>(&value), sizeof(T));
    return *this;
  }
  std::span<const std::byte> bytes() const { return data; }

private:
  std::vector<std::byte> data;
};

} // namespace gemma::emu
