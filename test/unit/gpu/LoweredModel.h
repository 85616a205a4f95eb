// Steps of a small model, lowered by the compiler's own phases for CUDA devices and run kernel by
// kernel on the emulated device: real kernels with the tiles, grids and arguments that the compiler
// gives them, each compared with KernelReference on the inputs that it found.
#pragma once

#include "test/unit/gpu/GpuKernelHarness.h"
#include "test/unit/gpu/KernelReference.h"

#include "dialect/program/Program.h"
#include "runtime/checkpoint/ModelConfig.h"

#include <map>
#include <memory>

namespace gemma::test {

class LoweredModel {
public:
  struct Limits {
    int64_t context = 1024, batch = 16, chunk = 512;
  };
  /// `sharedKeys`: layers whose keys follow from their values store values alone.
  /// `deterministic`: no block shares a row's work with another.
  LoweredModel(const ModelConfig &config, Limits limits, bool sharedKeys,
               bool deterministic = false);

  /// Cuts the work of contractions that blocks share into this many runs at most, as for a smaller
  /// device: longer runs. Before a kernel is compiled.
  void shareAmong(int64_t blocks);

  mlir::ModuleOp module() { return *lowered; }
  /// The first variant whose condition holds; null if none does.
  program::VariantOp variantFor(const GemmaSizes &sizes);
  kernel::FuncOp kernel(llvm::StringRef name) {
    return lowered->lookupSymbol<kernel::FuncOp>(name);
  }
  /// Compiled when first asked for.
  GpuKernel &compiled(kernel::FuncOp kernel);
  int64_t ringPages() const { return ring; }

private:
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> lowered;
  std::map<std::string, std::unique_ptr<GpuKernel>> kernels;
  int64_t ring = 0;
};

/// A sequence of a batch: its new tokens, and its length with them.
struct Run {
  int64_t fresh, length;
};
using Runs = std::vector<Run>;

/// Of a step with logits of every sequence's last token.
GemmaSizes sizesOf(const Runs &runs);

/// The memory of one step and its launches.
class LoweredStep {
public:
  /// One of the launches, in order.
  struct Launch {
    kernel::FuncOp kernel;
    std::vector<void *> arguments;
    std::vector<size_t> elements;               ///< of each argument
    std::vector<bool> workspace;                ///< each argument: only its blocks use it
    std::vector<std::vector<std::byte>> before; ///< each argument's bytes; only those written
    std::vector<std::vector<std::byte>> after;
  };

  /// Weights, inputs and what a window or a sequence holds of earlier tokens are random, the same
  /// for equal `seed`s; `poison` fills every byte that nobody may use: dead places of caches,
  /// buffers before they are written. 0xff is NaN.
  LoweredStep(LoweredModel &model, const Runs &runs, uint32_t seed, uint8_t poison = 0xff);

  /// Runs all launches. With `check` each is compared with its reference, which remembers what it
  /// writes. Failures are added to the test.
  void run(const emu::LaunchOptions &options, bool check);
  /// Runs one again, by another kernel, and takes back what it did. What is wrong with it:
  /// findings, results; nothing if it is right.
  std::string attempt(size_t launch, const GpuKernel &kernel, const emu::LaunchOptions &options);
  /// The bytes that the launches left, at the places that they write; of a checked step also which
  /// these are. `places`: of a checked step with equal runs.
  using Places = std::vector<std::vector<std::vector<bool>>>;
  const Places &places() const { return written; }
  std::vector<std::byte> results(const Places &places) const;

  std::string variant;
  GemmaSizes sizes{};
  std::vector<Launch> launches;
  double worst = 0; ///< of all references: largest difference over its bound

private:
  struct Memory {
    std::byte *data = nullptr;
    size_t elements = 0;
    bool workspace = false;
  };
  Memory allocate(mlir::MemRefType type, int64_t rows, const std::string &name, bool readOnly);
  void fillWeight(Memory memory, program::WeightOp weight);
  void fillTable(Memory memory);
  void fillCache(Memory memory, program::CacheOp cache, bool isKeys);
  Memory input(program::InputOp op);
  Memory reference(program::RefOp op);
  int64_t extentOf(llvm::StringRef name) const;
  int64_t cachePages(program::CacheOp cache) const;
  int64_t physicalPage(program::CacheOp cache, size_t sequence, int64_t page) const;
  std::vector<ReferenceArgument> referenceArguments(const Launch &launch) const;
  bool writes(const Launch &launch, size_t argument) const {
    kernel::FuncOp function = launch.kernel;
    return function.getAccess(static_cast<unsigned>(argument)) != kernel::Access::Read;
  }

  LoweredModel &model;
  Runs runs;
  uint32_t seed;
  uint8_t poison;
  DeviceMemory memory;
  std::map<std::string, Memory> named;     ///< weights, cache lanes, table lanes, inputs
  std::vector<std::vector<int32_t>> pages; ///< of each sequence, in the paged caches
  std::vector<int32_t> slots;
  int64_t pagesInAll = 0;
  Places written;
};

/// Everything a test wants to know of how the kernels come out.
inline emu::LaunchOptions optionsOf(Mode mode, uint64_t seed = 11) {
  emu::LaunchOptions options;
  options.order = mode.order;
  options.asyncMode = mode.async;
  options.seed = seed;
  return options;
}

} // namespace gemma::test
