#include "runtime/engine/Model.h"

#include "runtime/abi/ProgramSizes.h"
#include "runtime/device/HostDevice.h"
#include "runtime/device/HostExecutor.h"
#include "runtime/device/WorkerPool.h"
#include "runtime/engine/AngleTables.h"
#include "runtime/engine/CudaModel.h"

#include <algorithm>
#include <cstdlib>

namespace gemma {

/// Weights that lie ready go to a device in parts of this, with a word of progress after each.
static constexpr size_t uploadBytes = size_t(64) << 20;

Model::Model() = default;
Model::~Model() = default;

Expected<std::shared_ptr<Model>> Model::prepare(Artifact artifact, const ModelOptions &options,
                                                bool haveWeights) {
  std::shared_ptr<Model> model(new Model);
  model->content = std::move(artifact);
  Expected<MemoryPlan> plan = planMemory(model->program(), options.memory);
  if (!plan)
    return plan.status();
  Expected<WeightPlaces> places = planWeights(model->program());
  if (!places)
    return places.status();
  model->weightOffsets = std::move(places->offsets);
  model->weightBytes = places->total;
  if (Status status = model->loadKernels(options.device); !status)
    return status;
  // Weights that the host has are still to go to a device.
  uint64_t have = haveWeights && !model->cuda ? plan->weights : 0;
  if (Status status = model->checkMemory(plan->total() - have, *plan); !status)
    return status;
  if (Status status = model->makeTables(); !status)
    return status;
  if (model->bytes() != plan->modelBytes())
    return internalError("weights and tables take " + std::to_string(model->bytes()) +
                         " bytes, the plan said " + std::to_string(plan->modelBytes()));
  return model;
}

Expected<std::shared_ptr<const Model>> Model::load(Artifact artifact, WeightArena weights,
                                                   const ModelOptions &options) {
  Expected<std::shared_ptr<Model>> made =
      prepare(std::move(artifact), options, /*haveWeights=*/true);
  if (!made)
    return made.status();
  Model &model = **made;
  if (model.cuda) {
    std::span<const std::byte> bytes = weights.payload();
    for (size_t at = 0; at < bytes.size(); at += uploadBytes) {
      size_t count = std::min(uploadBytes, bytes.size() - at);
      if (Status status = model.cuda->upload(at, bytes.subspan(at, count)); !status)
        return status;
      if (options.progress)
        options.progress(at + count, bytes.size());
    }
    if (Status status = model.cuda->finishUploads(); !status)
      return status;
  } else {
    model.weights = std::move(weights);
    model.weightStart = model.weights.payload().data();
  }
  return std::shared_ptr<const Model>(std::move(*made));
}

Expected<std::shared_ptr<const Model>> Model::load(Artifact artifact, const TensorSource &tensors,
                                                   const ModelOptions &options) {
  Expected<std::shared_ptr<Model>> made = prepare(std::move(artifact), options, false);
  if (!made)
    return made.status();
  Model &model = **made;
  unsigned threads = options.threads ? options.threads : WorkerPool::availableThreads();
  if (model.cuda) {
    auto upload = [&](uint64_t offset, std::span<const std::byte> bytes) {
      return model.cuda->upload(offset, bytes);
    };
    if (Status status =
            packWeights(model.program(), tensors, int(threads), upload, options.progress);
        !status)
      return status;
    if (Status status = model.cuda->finishUploads(); !status)
      return status;
  } else {
    Expected<WeightArena> weights =
        WeightArena::pack(model.program(), tensors, int(threads), options.progress);
    if (!weights)
      return weights.status();
    model.weights = std::move(*weights);
    model.weightStart = model.weights.payload().data();
  }
  return std::shared_ptr<const Model>(std::move(*made));
}

Status Model::checkMemory(uint64_t bytes, const MemoryPlan &plan) const {
  return cuda ? cuda->checkMemory(bytes, plan) : gemma::checkMemory(bytes, plan);
}

bool Model::hasObjects(ObjectKind kind) const {
  return std::ranges::any_of(content.objects,
                             [&](const KernelBinary &binary) { return binary.kind == kind; });
}

Status Model::loadKernels(const DeviceChoice &choice) {
  using Kind = DeviceChoice::Kind;
  bool host = program().family == DeviceFamily::Host;
  if (host && (choice.kind == Kind::Cuda || choice.kind == Kind::Emulated))
    return usage("device " + choice.text() + ": the artifact was compiled for the host; compile " +
                 "it with --target " + (choice.kind == Kind::Cuda ? "sm_80" : "emu-sm_80"));
  if (!host && choice.kind == Kind::Host)
    return usage("device host: the artifact was compiled for CUDA devices; compile it with "
                 "--target host");
  return host ? loadHostKernels() : loadCudaKernels(choice);
}

Status Model::loadCudaKernels(const DeviceChoice &choice) {
  using Kind = DeviceChoice::Kind;
  if (choice.kind == Kind::Emulated)
    return loadEmulatedKernels();
  bool haveCode = hasObjects(ObjectKind::Cubin) || hasObjects(ObjectKind::Ptx);
  if (!haveCode && choice.kind == Kind::Cuda)
    return usage("device " + choice.text() +
                 ": the artifact has code for the emulated device "
                 "alone; compile it with --target sm_80 or ptx-sm_80");
  if (haveCode) {
    Expected<std::unique_ptr<CudaModel>> opened = CudaModel::open(content, choice.ordinal);
    if (opened) {
      cuda = std::move(*opened);
      isaName = cuda->title();
      return {};
    }
    if (choice.kind == Kind::Cuda || !hasObjects(ObjectKind::Emulator))
      return opened.status();
    cudaProblem = opened.error().message;
  }
  return loadEmulatedKernels();
}

Status Model::loadEmulatedKernels() {
  for (const KernelPlan &plan : program().kernels) {
    auto object = std::ranges::find_if(content.objects, [&](const KernelBinary &binary) {
      return binary.kind == ObjectKind::Emulator && binary.kernel == plan.name;
    });
    if (object == content.objects.end())
      return usage("device emu: the artifact has no code for the emulated device; compile it with "
                   "--target emu-sm_80");
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
  candidates.reserve(content.objects.size());
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

Expected<std::unique_ptr<Executor>> Model::makeExecutor(unsigned threads) const {
  if (program().family == DeviceFamily::Host)
    return std::unique_ptr<Executor>(std::make_unique<HostExecutor>(kernels, threads));
  if (cuda)
    return cuda->makeExecutor();
  const char *settings = std::getenv("GEMMA_EMU");
  Expected<emu::LaunchOptions> options = emu::launchOptionsFrom(settings ? settings : "");
  if (!options)
    return options.status();
  auto executor = std::make_unique<emu::EmuExecutor>(emulated, threads, std::move(*options));
  for (size_t i = 0; i < program().weights.size(); ++i) {
    const WeightRecipe &recipe = program().weights[i];
    if (Status status = executor->declareMemory(weight(int64_t(i)), recipe.bytes,
                                                "weight " + recipe.name, MemoryContent::Constant);
        !status)
      return status;
  }
  for (size_t i = 0; i < program().tables.size(); ++i)
    for (size_t lane = 0; lane < 4; ++lane) {
      const TablePlan &table = program().tables[i];
      if (Status status = executor->declareMemory(
              tableLane(int64_t(i), lane), tableLaneBytes(table).value_or(0),
              "table " + table.name + "." + std::string(angleLaneNames[lane]),
              MemoryContent::Constant);
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
  tableBytes = total;
  Expected<PageMemory> memory = PageMemory::allocate(total, "angle tables");
  if (!memory)
    return memory.status();
  tables = std::move(*memory);
  for (size_t index = 0; index < program().tables.size(); ++index) {
    const TablePlan &table = program().tables[index];
    for (size_t lane = 0; lane < 4; ++lane)
      fillAngleLane(
          table, lane,
          {tables.data() + tableOffsets[index * 4 + lane], tableLaneBytes(table).value_or(0)});
  }
  tableStart = tables.data();
  return cuda ? moveTables() : Status();
}

/// Takes memory on the device for weights and tables, and the tables there.
Status Model::moveTables() {
  if (Status status = cuda->allocate(bytes()); !status)
    return status;
  weightStart = cuda->data();
  tableStart = weightStart + weightBytes;
  if (Status status = cuda->upload(weightBytes, tables.bytes()); !status)
    return status;
  if (Status status = cuda->finishUploads(); !status)
    return status;
  tables = {};
  return {};
}

} // namespace gemma
