#include "runtime/device/emu/Launch.h"

#include "runtime/device/emu/Block.h"

#include <algorithm>
#include <numeric>

namespace gemma::emu {

std::string LaunchReport::messages() const {
  std::string result;
  for (const Finding &finding : findings)
    result += finding.message() + "\n";
  return result;
}

static Status checkRequest(const Module::Kernel &kernel, const std::array<uint32_t, 3> &grid,
                           const std::array<uint32_t, 3> &block, uint32_t dynamicShared,
                           size_t paramBytes, const LaunchOptions &options) {
  auto refuse = [&](const std::string &what) {
    return badInput("emulated device, kernel " + kernel.name + ": " + what);
  };
  uint64_t blocks = 1, threads = 1;
  for (int d = 0; d < 3; ++d) {
    if (grid[d] == 0 || block[d] == 0)
      return refuse("a grid or block of no size");
    blocks *= grid[d];
    threads *= block[d];
    if (blocks > UINT32_MAX || threads > 1024)
      return refuse("expected at most 2^32 - 1 blocks of at most 1024 threads");
  }
  if (threads > kernel.maxThreads)
    return refuse("expected at most " + std::to_string(kernel.maxThreads) +
                  " threads a block (.maxntid), got " + std::to_string(threads));
  // 227 KiB: what the largest of the real devices gives one block.
  uint64_t shared = kernel.staticShared + dynamicShared;
  if (shared > 227 << 10)
    return refuse("expected at most 232448 bytes of shared memory a block, got " +
                  std::to_string(shared));
  if (paramBytes != kernel.paramBytes)
    return refuse("expected " + std::to_string(kernel.paramBytes) + " bytes of parameters, got " +
                  std::to_string(paramBytes));
  for (uint64_t sample : options.sampledBlocks)
    if (sample >= blocks)
      return refuse("sampled block " + std::to_string(sample) + " of " + std::to_string(blocks));
  return {};
}

/// The blocks to run, in the order in which they start.
static std::vector<uint64_t> blockOrder(uint64_t blocks, const LaunchOptions &options) {
  std::vector<uint64_t> order = options.sampledBlocks;
  if (order.empty()) {
    order.resize(blocks);
    std::iota(order.begin(), order.end(), uint64_t(0));
  }
  if (options.order == Order::Reverse)
    std::reverse(order.begin(), order.end());
  if (options.order == Order::Random) {
    std::mt19937_64 random(options.seed);
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random() % i]);
  }
  return order;
}

Expected<LaunchReport> launch(const Module &module, std::string_view name,
                              std::array<uint32_t, 3> grid, std::array<uint32_t, 3> block,
                              uint32_t dynamicSharedBytes, std::span<const std::byte> params,
                              const GlobalMemory &memory, WorkerPool &pool,
                              const LaunchOptions &options) {
  Expected<const Module::Kernel *> kernel = module.kernel(name);
  if (!kernel)
    return kernel.status();
  if (Status status =
          checkRequest(**kernel, grid, block, dynamicSharedBytes, params.size(), options);
      !status)
    return status;
  GlobalShadow shadow;
  LaunchState state{module,
                    **kernel,
                    memory,
                    options,
                    grid,
                    block,
                    dynamicSharedBytes,
                    params,
                    Findings(module, std::string(name), options.node, options.nodes),
                    {},
                    &shadow};
  std::vector<uint64_t> order = blockOrder(uint64_t(grid[0]) * grid[1] * grid[2], options);
  // One executor a worker, made when it gets its first block.
  std::vector<std::unique_ptr<Block>> executors(pool.threads());
  std::vector<Status> problems(pool.threads());
  pool.run(order.size(), [&](uint64_t begin, uint64_t end, unsigned worker) {
    std::unique_ptr<Block> &executor = executors[worker];
    if (!executor) {
      executor = std::make_unique<Block>(state, options.seed + worker);
      problems[worker] = executor->prepare();
    }
    for (uint64_t i = begin; i < end && problems[worker].ok() && !state.stopped; ++i)
      executor->run(order[i]);
  });
  for (const Status &problem : problems)
    if (!problem)
      return problem;
  LaunchReport report;
  report.completed = !state.stopped;
  report.findings = state.findings.take();
  for (const std::unique_ptr<Block> &executor : executors)
    if (executor)
      report.counters.add(executor->counters);
  return report;
}

} // namespace gemma::emu
