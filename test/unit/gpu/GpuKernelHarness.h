// Compiles kernels of the kernel dialect to PTX and runs them on the emulated device, where races,
// missing waits, reads of what nobody wrote and accesses out of bounds are findings.
#pragma once

#include "codegen/gpu/PtxEmitter.h"
#include "dialect/kernel/Kernel.h"
#include "runtime/abi/KernelAbi.h"
#include "runtime/device/emu/Launch.h"
#include "runtime/support/BFloat16.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace gemma::test {

/// Orders of threads and times at which asynchronous copies are seen.
struct Mode {
  emu::Order order;
  emu::AsyncMode async;
};
/// The three orders, each with one of the times; `all`: every combination.
std::vector<Mode> modes(bool all);

/// Device memory, filled with NaN until something else is written.
class DeviceMemory {
public:
  template <typename T> T *allocate(size_t count, const std::string &name, bool readOnly = false) {
    auto got = memory.allocate(count * sizeof(T), name, readOnly);
    EXPECT_TRUE(got.ok());
    return static_cast<T *>(*got);
  }
  template <typename T>
  T *copyOf(const std::vector<T> &values, const std::string &name, bool readOnly = true) {
    T *to = allocate<T>(values.size(), name, readOnly);
    std::copy(values.begin(), values.end(), to);
    return to;
  }
  emu::GlobalMemory memory;
};

/// One kernel, compiled for sm_80.
class GpuKernel {
public:
  /// `text`: a module with one kernel.func that has a launch.
  explicit GpuKernel(const std::string &text);
  /// A kernel with a launch, in a context that has the dialects of GPU code generation.
  explicit GpuKernel(kernel::FuncOp kernel);
  /// Runs `blocks` blocks and expects no finding.
  void run(DeviceMemory &memory, const std::vector<void *> &arguments, const GemmaSizes &sizes,
           uint32_t blocks, Mode mode) const;
  /// The same with whatever it finds.
  Expected<emu::LaunchReport> attempt(DeviceMemory &memory, const std::vector<void *> &arguments,
                                      const GemmaSizes &sizes, uint32_t blocks,
                                      const emu::LaunchOptions &options) const;
  /// The same kernel by another PTX text.
  GpuKernel withPtx(const std::string &text) const;

  std::string ptx;

private:
  GpuKernel() = default;
  void compile(mlir::ModuleOp module);
  Status load(const std::string &text);

  std::string name;
  uint32_t threads = 0, sharedBytes = 0;
  std::vector<emu::Module> module; ///< one
};

/// Small numbers that bf16 holds exactly are not wanted: these have rounding errors everywhere.
std::vector<float> randomValues(size_t count, uint32_t seed, float scale = 1.0f);
std::vector<uint16_t> toBf16(const std::vector<float> &values);

/// W [rows, columns] in the layout of GPU contractions (dialect/kernel, kernel.contract): blocks of
/// 64 columns, groups of 8 rows, 16-byte chunks exclusive-or'ed with the row.
std::vector<uint16_t> packForGpu(const std::vector<uint16_t> &w, int64_t rows, int64_t columns);

} // namespace gemma::test
