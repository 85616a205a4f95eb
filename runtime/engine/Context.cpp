// Memory of a context: allocation, addresses, sequences. Step.cpp runs it.
#include "runtime/engine/Context.h"

#include "runtime/abi/ProgramSizes.h"
#include "runtime/checkpoint/Widen.h"
#include "runtime/device/WorkerPool.h"
#include "runtime/engine/AngleTables.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace gemma {

Context::Context(std::shared_ptr<const Model> model, const MemoryPlan &plan)
    : shared(std::move(model)), memoryPlan(plan) {}

Context::~Context() = default;

Expected<std::unique_ptr<Context>> Context::create(std::shared_ptr<const Model> model,
                                                   const ContextOptions &options) {
  MemoryRequest request;
  request.context = options.context;
  request.batch = options.batch;
  request.threads = options.threads ? options.threads : WorkerPool::availableThreads();
  Expected<MemoryPlan> plan = planMemory(model->program(), request);
  if (!plan)
    return plan.status();
  if (Status status = model->checkMemory(plan->contextBytes(), *plan); !status)
    return status;
  std::unique_ptr<Context> context(new Context(std::move(model), *plan));
  const char *poison = std::getenv("GEMMA_POISON");
  context->poison = options.poison || (poison && std::strcmp(poison, "1") == 0);
  context->layOut();
  if (Status status = context->allocate(); !status)
    return status;
  context->bindArguments();
  if (Status status = context->findLargestGrids(); !status)
    return status;
  return context;
}

Status Context::allocate() {
  uint64_t bytes = regions.empty() ? 0
                                   : alignedBytes(regions.back().range.bytes).value_or(0) +
                                         regions.back().range.offset;
  if (bytes != memoryPlan.contextBytes())
    return internalError("a context takes " + std::to_string(bytes) + " bytes, the plan said " +
                         std::to_string(memoryPlan.contextBytes()));
  Expected<std::unique_ptr<Executor>> made = shared->makeExecutor(unsigned(memoryPlan.threads));
  if (!made)
    return made.status();
  executor = std::move(*made);
  Expected<ContextMemory> place = executor->allocate(bytes, visibleBytes);
  if (!place)
    return place.status();
  memory = *place;
  ticketsAreZero = true; // as is all of it
  for (const Region &region : regions) {
    bool zeros = region.range.offset == tickets.offset && tickets.bytes != 0;
    if (Status status = executor->declareMemory(
            memory.device + region.range.offset, region.range.bytes, region.name,
            zeros ? MemoryContent::Known : MemoryContent::Unknown);
        !status)
      return status;
  }
  return {};
}

/// Gives every object its place, and every page to nobody.
void Context::layOut() {
  const Program &program = shared->program();
  uint64_t used = 0;
  // planMemory() has found that none of these sizes overflows.
  auto take = [&](uint64_t bytes, std::string name) {
    ByteRange place{used, bytes};
    used += *alignedBytes(bytes);
    regions.push_back({place, std::move(name)});
    return place;
  };
  // The page table is last: a step's rows of it are all that is copied of it.
  inputs.resize(stepInputCount);
  auto takeInput = [&](StepInput input) {
    inputs[size_t(input)] = take(4 * uint64_t(stepInputEntries(input, program)),
                                 "input " + std::string(stepInputName(input)));
  };
  for (size_t i = 0; i < stepInputCount; ++i)
    if (StepInput(i) != StepInput::PageTable)
      takeInput(StepInput(i));
  takeInput(StepInput::PageTable);
  for (const OutputPlan &output : program.outputs)
    outputs.push_back(
        take(outputBytes(output, program.limits).value_or(0), "output " + output.name));
  visibleBytes = used;
  uint64_t scratchBytes = 0;
  for (const KernelPlan &kernel : program.kernels)
    scratchBytes = std::max(scratchBytes, kernel.scratchBytes);
  scratchStride = alignedBytes(scratchBytes).value_or(0);
  scratch = take(scratchStride * uint64_t(memoryPlan.threads), "scratch");
  arena = take(memoryPlan.activations, "activations");
  tickets = take(ticketBytes(program), "tickets");
  int64_t sequencePages = (memoryPlan.context + 15) / 16;
  for (const CachePlan &cache : program.caches) {
    uint64_t pageCount =
        uint64_t(memoryPlan.batch * (cache.ring ? cache.ringPages : sequencePages));
    for (size_t lane = 0; lane < cacheLaneCount; ++lane)
      lanes.push_back(hasLane(cache, lane)
                          ? take(lanePageBytes(cache, lane).value_or(0) * pageCount,
                                 "cache " + cache.name + "." + std::string(cacheLaneNames[lane]))
                          : ByteRange());
    if (cache.ring)
      ringPages = cache.ringPages;
  }
  // Lower numbers are given out first.
  for (int64_t slot = memoryPlan.batch; slot-- > 0;)
    freeSlots.push_back(int32_t(slot));
  for (int64_t page = memoryPlan.batch * sequencePages; page-- > 0;)
    freePages.push_back(int32_t(page));
  sequences.resize(size_t(memoryPlan.batch));
}

void *Context::address(const LaunchArgument &argument) const {
  using Kind = LaunchArgument::Kind;
  const Program &program = shared->program();
  const std::byte *base = nullptr;
  switch (argument.kind) {
  case Kind::Buffer:
  case Kind::Workspace:
    base = memory.device + arena.offset;
    break;
  case Kind::Tickets:
    base = memory.device + tickets.offset;
    break;
  case Kind::Weight:
    base = shared->weight(argument.index);
    break;
  case Kind::Cache:
    base = memory.device +
           lanes[size_t(argument.index) * cacheLaneCount + cacheLaneFromName(argument.name)].offset;
    break;
  case Kind::Table:
    for (size_t lane = 0; lane < 4; ++lane)
      if (angleLaneNames[lane] == argument.name)
        base = shared->tableLane(argument.index, lane);
    break;
  case Kind::Input:
    if (std::optional<StepInput> input = stepInputFromName(argument.name))
      base = memory.device + inputs[size_t(*input)].offset;
    break;
  case Kind::Output:
    for (size_t i = 0; i < program.outputs.size(); ++i)
      if (program.outputs[i].name == argument.name)
        base = memory.device + outputs[i].offset;
    break;
  }
  // Kernels write only what checkProgram() found writable.
  return const_cast<std::byte *>(base) + argument.offset;
}

void Context::bindArguments() {
  for (const Variant &variant : shared->program().variants) {
    auto &launches = arguments.emplace_back();
    for (const Launch &launch : variant.launches) {
      auto &addresses = launches.emplace_back();
      for (const LaunchArgument &argument : launch.arguments)
        addresses.push_back(address(argument));
    }
  }
}

Expected<std::unique_ptr<Sequence>> Context::newSequence() {
  if (freeSlots.empty())
    return badInput("expected at most " + std::to_string(memoryPlan.batch) +
                    " sequences at the same time, got one more");
  int32_t slot = freeSlots.back();
  freeSlots.pop_back();
  std::unique_ptr<Sequence> sequence(new Sequence(*this, slot));
  sequences[size_t(slot)] = sequence.get();
  discardPages(/*ring=*/true, slot * ringPages, ringPages);
  return sequence;
}

void Context::discardPages(bool ring, int64_t first, int64_t count) {
  if (!executor->watchesReads())
    return;
  const std::vector<CachePlan> &caches = shared->program().caches;
  for (size_t c = 0; c < caches.size(); ++c)
    for (size_t lane = 0; lane < cacheLaneCount; ++lane)
      if (caches[c].ring == ring && hasLane(caches[c], lane)) {
        uint64_t bytes = lanePageBytes(caches[c], lane).value_or(0);
        executor->discard({lanes[c * cacheLaneCount + lane].offset + uint64_t(first) * bytes,
                           uint64_t(count) * bytes});
      }
}

bool isWanted(const OutputPlan &output, OutputsWanted wanted) {
  return wanted == OutputsWanted::All || isTopOutput(output) == (wanted == OutputsWanted::Top);
}

std::optional<OutputView> Context::output(std::string_view name) const {
  const std::vector<OutputPlan> &plans = shared->program().outputs;
  for (size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].name != name || !isWanted(plans[i], last.outputs))
      continue;
    OutputView view;
    view.type = plans[i].type;
    view.rows = plans[i].extent == 'T' ? last.tokens : last.logitRows;
    view.rowElements = 1;
    for (int64_t size : plans[i].shape)
      view.rowElements *= size;
    view.data = onHost(outputs[i].offset);
    return view;
  }
  return std::nullopt;
}

void OutputView::copyRow(int64_t row, std::span<double> out) const {
  size_t rowBytes = size_t(rowElements) * byteWidth(type);
  widen(type, {data + size_t(row) * rowBytes, rowBytes}, 0, out);
}

void OutputView::copyRow(int64_t row, std::span<int32_t> out) const {
  std::memcpy(out.data(), data + size_t(row * rowElements) * sizeof(int32_t), out.size_bytes());
}

const std::byte *Context::argumentData(size_t variant, size_t launch, size_t argument) const {
  uint64_t offset = reinterpret_cast<uint64_t>(arguments[variant][launch][argument]) -
                    reinterpret_cast<uint64_t>(memory.device);
  return offset < memoryPlan.contextBytes() ? onHost(offset) : nullptr;
}

Status Context::fetchWritten(const Launch &launch) {
  using Kind = LaunchArgument::Kind;
  const Program &program = shared->program();
  const KernelPlan &kernel = program.kernels[size_t(launch.kernel)];
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    const LaunchArgument &argument = launch.arguments[i];
    if (kernel.access[i] == 0)
      continue;
    ByteRange range{arena.offset + argument.offset, argument.bytes};
    if (argument.kind == Kind::Output) {
      for (size_t o = 0; o < outputs.size(); ++o)
        if (program.outputs[o].name == argument.name)
          range = outputs[o];
    } else if (argument.kind != Kind::Buffer) {
      continue;
    }
    if (Status status = executor->download(range); !status)
      return status;
  }
  return {};
}

Status Context::fetchCaches() {
  for (const ByteRange &lane : lanes)
    if (lane.bytes != 0)
      if (Status status = executor->download(lane); !status)
        return status;
  return {};
}

std::span<const std::byte> Context::cacheLane(size_t cache, std::string_view lane) const {
  const ByteRange &range = lanes[cache * cacheLaneCount + cacheLaneFromName(lane)];
  if (range.bytes == 0)
    return {};
  return {onHost(range.offset), size_t(range.bytes)};
}

int64_t Context::pageOf(const Sequence &sequence, int64_t position, bool ring) const {
  int64_t page = position / 16;
  return ring ? sequence.slot * ringPages + page % ringPages
              : int64_t(sequence.pages[size_t(page)]);
}

std::byte *Context::onHost(uint64_t offset) const {
  return offset < visibleBytes ? memory.visible + offset : memory.rest + (offset - visibleBytes);
}

int32_t *Context::input(size_t index) const {
  return reinterpret_cast<int32_t *>(onHost(inputs[index].offset));
}

} // namespace gemma
