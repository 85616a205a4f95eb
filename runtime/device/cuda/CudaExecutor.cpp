#include "runtime/device/cuda/CudaExecutor.h"

#include "runtime/device/cuda/Graph.h"

#include <algorithm>
#include <bit>

namespace gemma::cuda {

/// Of the copies that tests ask for.
static constexpr uint64_t stagingBytes = uint64_t(1) << 20;

/// Kinds of steps to remember: two a variant of decode, as without logits the head has no blocks,
/// and chunks of prompts.
static constexpr size_t mostGraphs = 32;

Expected<std::unique_ptr<Executor>> CudaExecutor::create(std::shared_ptr<const Device> device,
                                                         std::span<const LoadedKernel> kernels,
                                                         const CudaExecutorOptions &options) {
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(std::move(device), kernels, options));
  Expected<Stream> stream = executor->device->makeStream();
  if (!stream)
    return stream.status();
  executor->stream = std::move(*stream);
  return std::unique_ptr<Executor>(std::move(executor));
}

CudaExecutor::~CudaExecutor() {
  // Nothing may go that the device still uses; an error has been somebody's already.
  if (stream.get())
    (void)wait();
}

Status CudaExecutor::wait() { return device->call(device->api().streamSynchronize, stream.get()); }

Expected<ContextMemory> CudaExecutor::allocate(uint64_t bytes, uint64_t visible) {
  Expected<Memory> made = device->allocate(bytes, "a context");
  if (!made)
    return made.status();
  memory = std::move(*made);
  Expected<PinnedMemory> inputs = device->allocatePinned(visible, "inputs and outputs of steps");
  if (!inputs)
    return inputs.status();
  pinned = std::move(*inputs);
  std::memset(pinned.data(), 0, size_t(visible));
  Expected<PageMemory> rest = PageMemory::allocate(bytes - visible, "the host's view of a context");
  if (!rest)
    return rest.status();
  mirror = std::move(*rest);
  if (Status status = fill({0, bytes}, 0); !status)
    return status;
  return ContextMemory{std::bit_cast<std::byte *>(memory.pointer()), pinned.data(), mirror.data()};
}

void CudaExecutor::begin(size_t stepVariant, uint64_t bytes) {
  variant = stepVariant;
  inputBytes = bytes;
  whole = true;
  launches.clear();
}

Status CudaExecutor::run(const KernelCall &call) {
  if (call.blocks == 0)
    return {};
  const LoadedKernel &kernel = kernels[call.kernel];
  uint64_t most = device->facts().blocksPerGrid;
  uint64_t blocks = std::max(call.blocks, call.mostBlocks);
  if (blocks > most)
    return internalError("kernel " + kernel.need.name + ": expected at most " +
                         std::to_string(most) + " blocks, got " + std::to_string(blocks));
  launches.push_back({call.kernel, uint32_t(blocks), call.arguments, call.sizes, call.nodes});
  return {};
}

/// The error of a launch, with the kernel and the nodes that it computes.
static Status ofLaunch(const Status &status, const std::string &kernel,
                       std::span<const std::string> nodes) {
  std::string where = "kernel " + kernel;
  for (size_t i = 0; i < nodes.size(); ++i)
    where += (i ? ", " : " (") + nodes[i] + (i + 1 == nodes.size() ? ")" : "");
  return Error{status.error().kind, where + ": " + status.error().message};
}

Status CudaExecutor::launch(const Pending &pending) {
  const LoadedKernel &kernel = kernels[pending.kernel];
  // The driver copies the parameters: addresses of the arguments, then of the sizes.
  std::vector<void *> parameters;
  for (void *const &argument : pending.arguments)
    parameters.push_back(static_cast<void *>(const_cast<void **>(&argument)));
  const GemmaSizes *sizes = pending.sizes;
  parameters.push_back(static_cast<void *>(&sizes));
  Status status =
      device->call(device->api().launchKernel, kernel.function, pending.blocks, 1u, 1u,
                   unsigned(kernel.need.threads), 1u, 1u, unsigned(kernel.need.sharedBytes),
                   stream.get(), parameters.data(), static_cast<void **>(nullptr));
  if (status && options.waitEachLaunch)
    status = wait();
  return status ? status : ofLaunch(status, kernel.need.name, pending.nodes);
}

Status CudaExecutor::copyInputs() {
  if (inputBytes == 0)
    return {};
  return device->call(device->api().memcpyToDevice, memory.pointer(),
                      static_cast<const void *>(pinned.data()), size_t(inputBytes), stream.get());
}

Status CudaExecutor::copyResults(std::span<const ByteRange> results) {
  for (const ByteRange &range : results)
    if (Status status = device->call(
            device->api().memcpyToHost, static_cast<void *>(pinned.data() + range.offset),
            memory.pointer() + range.offset, size_t(range.bytes), stream.get());
        !status)
      return status;
  return {};
}

Status CudaExecutor::launchAll() {
  for (const Pending &pending : launches)
    if (Status status = launch(pending); !status)
      return status;
  return {};
}

CudaExecutor::StepKey CudaExecutor::key() const {
  StepKey key = {variant};
  for (const Pending &pending : launches) {
    // Launches without blocks are not among them, so the number of a launch does not say its
    // kernel.
    key.push_back(pending.kernel);
    key.push_back(pending.blocks);
  }
  return key;
}

Expected<GraphExecHandle> CudaExecutor::graphOfLaunches() {
  if (!options.graphs || options.waitEachLaunch || launches.empty())
    return GraphExecHandle(nullptr);
  StepKey key = this->key();
  if (graphs.size() >= mostGraphs && !graphs.contains(key)) {
    // What came once goes first.
    std::erase_if(graphs, [](const auto &entry) { return !entry.second.exec.get(); });
    if (graphs.size() >= mostGraphs)
      graphs.clear();
  }
  Graph &graph = graphs[key];
  // A step that comes once, a prompt's last chunk, is not worth a graph.
  if (++graph.steps >= 2 && !graph.exec.get()) {
    Result result = Success;
    Expected<Owned<GraphExecHandle>> made =
        captureGraph(device, stream.get(), [&] { return launchAll(); }, result);
    if (!made) {
      graphs.erase(key);
      if (Status status = withoutGraphs(result, made.status()); !status)
        return status;
      return GraphExecHandle(nullptr);
    }
    graph.exec = std::move(*made);
  }
  return graph.exec.get();
}

/// Graphs take memory of the device that no plan knows: without it steps go on as launches.
Status CudaExecutor::withoutGraphs(Result result, const Status &status) {
  if (result != ErrorOutOfMemory)
    return status;
  graphs.clear();
  options.graphs = false;
  return {};
}

Status CudaExecutor::launchStep(GraphExecHandle graph) {
  if (!graph)
    return launchAll();
  Result result = Success;
  Status launched = device->callFor(result, device->api().graphLaunch, graph, stream.get());
  if (launched)
    return launched;
  Status status = withoutGraphs(result, launched);
  return status ? launchAll() : status;
}

Status CudaExecutor::finish(std::span<const ByteRange> results) {
  // A graph is made before anything of the step is in the stream.
  Expected<GraphExecHandle> graph = whole ? graphOfLaunches() : GraphExecHandle(nullptr);
  Status status = graph ? copyInputs() : graph.status();
  if (status)
    status = launchStep(*graph);
  if (status)
    status = copyResults(results);
  whole = false;
  inputBytes = 0;
  launches.clear();
  // After an error too: the host may not write the next inputs while these are copied.
  Status ended = wait();
  return status ? ended : status;
}

Expected<Staging *> CudaExecutor::copies() {
  if (!staging) {
    Expected<Staging> made = Staging::create(device, stagingBytes);
    if (!made)
      return made.status();
    staging.emplace(std::move(*made));
  }
  return &*staging;
}

Status CudaExecutor::download(ByteRange range) {
  Expected<Staging *> by = copies();
  if (!by)
    return by.status();
  return (*by)->download({hostPlace(range.offset), size_t(range.bytes)},
                         memory.pointer() + range.offset);
}

Status CudaExecutor::upload(ByteRange range) {
  Expected<Staging *> by = copies();
  if (!by)
    return by.status();
  if (Status status = (*by)->upload(memory.pointer() + range.offset,
                                    {hostPlace(range.offset), size_t(range.bytes)});
      !status)
    return status;
  return (*by)->finish();
}

Status CudaExecutor::fill(ByteRange range, uint8_t value) {
  if (range.bytes == 0)
    return {};
  if (Status status = device->call(device->api().memset, memory.pointer() + range.offset, value,
                                   size_t(range.bytes), stream.get());
      !status)
    return status;
  return wait();
}

} // namespace gemma::cuda
