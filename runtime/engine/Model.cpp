#include "runtime/engine/Model.h"

#include "runtime/abi/ProgramSizes.h"
#include "runtime/device/HostDevice.h"
#include "runtime/device/HostExecutor.h"
#include "runtime/device/WorkerPool.h"
#include "runtime/engine/AngleTables.h"

#include <algorithm>
#include <cstdlib>

namespace gemma {

Expected<std::shared_ptr<Model>> Model::prepare(Artifact artifact, const ModelOptions &options,
                                                bool haveWeights) {
  std::shared_ptr<Model> model(new Model);
  model->content = std::move(artifact);
  Expected<MemoryPlan> plan = planMemory(model->program(), options.memory);
  if (!plan)
    return plan.status();
  if (Status status = checkMemory(plan->total() - (haveWeights ? plan->weights : 0), *plan);
      !status)
    return status;
  model->plannedBytes = plan->modelBytes();
  if (Status status = model->loadKernels(); !status)
    return status;
  if (Status status = model->makeTables(); !status)
    return status;
  return model;
}

Expected<std::shared_ptr<const Model>> Model::load(Artifact artifact, WeightArena weights,
                                                   const ModelOptions &options) {
  Expected<std::shared_ptr<Model>> model =
      prepare(std::move(artifact), options, /*haveWeights=*/true);
  if (!model)
    return model.status();
  (*model)->weights = std::move(weights);
  return std::shared_ptr<const Model>(std::move(*model));
}

Expected<std::shared_ptr<const Model>> Model::load(Artifact artifact, const Checkpoint &checkpoint,
                                                   const ModelOptions &options) {
  Expected<std::shared_ptr<Model>> model = prepare(std::move(artifact), options, false);
  if (!model)
    return model.status();
  unsigned threads = options.threads ? options.threads : WorkerPool::availableThreads();
  Expected<WeightArena> weights =
      WeightArena::pack((*model)->program(), checkpoint, int(threads), options.progress);
  if (!weights)
    return weights.status();
  (*model)->weights = std::move(*weights);
  if ((*model)->bytes() != (*model)->plannedBytes)
    return internalError("weights and tables take " + std::to_string((*model)->bytes()) +
                         " bytes, the plan said " + std::to_string((*model)->plannedBytes));
  return std::shared_ptr<const Model>(std::move(*model));
}

Status Model::loadKernels() {
  return program().family == DeviceFamily::Host ? loadHostKernels() : loadEmulatedKernels();
}

Status Model::loadEmulatedKernels() {
  for (const KernelPlan &plan : program().kernels) {
    auto object = std::ranges::find_if(content.objects, [&](const KernelBinary &binary) {
      return binary.kind == ObjectKind::Emulator && binary.kernel == plan.name;
    });
    if (object == content.objects.end())
      return badInput("the artifact was compiled for CUDA devices, which this runtime does not "
                      "drive yet, and has no code for the emulated device; compile with --target "
                      "emu-sm_80");
    Expected<emu::Module> module = emu::Module::load(object->bytes, "object " + object->name);
    if (!module)
      return module.status();
    if (Expected<const emu::Module::Kernel *> kernel = module->kernel(plan.name); !kernel)
      return kernel.status();
    isaName = "emulated " + module->target();
    emulated.push_back(
        {std::move(*module), plan.name, uint32_t(plan.threads), uint32_t(plan.sharedBytes)});
  }
  return {};
}

Status Model::loadHostKernels() {
  std::vector<IsaCandidate> candidates;
  for (const KernelBinary &host : content.objects)
    candidates.push_back({host.name, host.features});
  Expected<size_t> choice = chooseIsa(candidates);
  if (!choice)
    return choice.status();
  KernelBinary &chosen = content.objects[*choice];
  isaName = chosen.name;
  Expected<KernelObject> loaded = KernelObject::load(chosen.bytes, "object " + chosen.name);
  if (!loaded)
    return loaded.status();
  object = std::move(*loaded);
  for (const KernelPlan &plan : program().kernels) {
    Expected<GemmaKernel> kernel = object.kernel(plan.name);
    if (!kernel)
      return kernel.status();
    kernels.push_back(*kernel);
  }
  return {};
}

Expected<std::unique_ptr<Executor>> Model::makeExecutor(unsigned threads, std::byte *scratch,
                                                        uint64_t scratchStride) const {
  if (program().family == DeviceFamily::Host)
    return std::unique_ptr<Executor>(
        std::make_unique<HostExecutor>(kernels, threads, scratch, scratchStride));
  const char *settings = std::getenv("GEMMA_EMU");
  Expected<emu::LaunchOptions> options = emu::launchOptionsFrom(settings ? settings : "");
  if (!options)
    return options.status();
  auto executor = std::make_unique<emu::EmuExecutor>(emulated, threads, std::move(*options));
  for (size_t i = 0; i < program().weights.size(); ++i) {
    const WeightRecipe &recipe = program().weights[i];
    if (Status status = executor->declareMemory(weight(int64_t(i)), recipe.bytes,
                                                "weight " + recipe.name, /*readOnly=*/true);
        !status)
      return status;
  }
  for (size_t i = 0; i < program().tables.size(); ++i)
    for (size_t lane = 0; lane < 4; ++lane) {
      const TablePlan &table = program().tables[i];
      if (Status status = executor->declareMemory(
              tableLane(int64_t(i), lane), *tableLaneBytes(table),
              "table " + table.name + "." + std::string(angleLaneNames[lane]),
              /*readOnly=*/true);
          !status)
        return status;
    }
  return std::unique_ptr<Executor>(std::move(executor));
}

Status Model::makeTables() {
  uint64_t total = 0;
  for (const TablePlan &table : program().tables)
    for (size_t lane = 0; lane < 4; ++lane) {
      tableOffsets.push_back(total);
      std::optional<uint64_t> lengthened = tableLaneBytes(table);
      std::optional<uint64_t> end =
          addBytes(total, lengthened ? alignedBytes(*lengthened) : std::nullopt);
      if (!end)
        return internalError("angle tables: more than 63 bits of bytes");
      total = *end;
    }
  Expected<PageMemory> memory = PageMemory::allocate(total, "angle tables");
  if (!memory)
    return memory.status();
  tables = std::move(*memory);
  for (size_t index = 0; index < program().tables.size(); ++index) {
    const TablePlan &table = program().tables[index];
    for (size_t lane = 0; lane < 4; ++lane)
      fillAngleLane(table, lane,
                    {tables.data() + tableOffsets[index * 4 + lane], *tableLaneBytes(table)});
  }
  return {};
}

} // namespace gemma
