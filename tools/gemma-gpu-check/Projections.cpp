#include "tools/gemma-gpu-check/Projections.h"

#include "runtime/abi/KernelAbi.h"
#include "runtime/abi/ProgramSizes.h"
#include "runtime/device/cuda/Staging.h"
#include "runtime/engine/CudaModel.h"
#include "tools/gemma-gpu-check/Cublas.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <set>

namespace gemma::check {

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using Kind = LaunchArgument::Kind;

/// Rounds of launches that are timed; the best counts.
constexpr int rounds = 5;
/// Most copies of a weight that are read in turn.
constexpr uint64_t mostCopies = 16;
/// Where a device does not say how much its second-level cache holds.
constexpr int likelyCache = 50 << 20;

const Variant *variantFor(const Program &program, const StepSizes &sizes) {
  for (const Variant &variant : program.variants)
    if (std::ranges::all_of(variant.conditions,
                            [&](const SizeCondition &condition) { return condition.holds(sizes); }))
      return &variant;
  return nullptr;
}

/// The weight that a launch multiplies with; null if it is no projection, or needs what a step has.
const WeightRecipe *multiplied(const Program &program, const Launch &launch) {
  const WeightRecipe *found = nullptr;
  for (const LaunchArgument &argument : launch.arguments) {
    if (argument.kind == Kind::Cache || argument.kind == Kind::Table ||
        argument.kind == Kind::Input) // attention, gathers
      return nullptr;
    if (argument.kind != Kind::Weight)
      continue;
    const WeightRecipe &weight = program.weights[size_t(argument.index)];
    if (weight.panel == 8 && weight.storage == ScalarType::BF16)
      found = &weight;
  }
  return found;
}

/// Runs one projection's launch, and cuBLAS, over memory of their own.
class Bench {
public:
  Bench(const Artifact &artifact, std::shared_ptr<const cuda::Device> device, int64_t launches)
      : program(artifact.program), device(std::move(device)), launches(launches) {}

  Status prepare(const Artifact &artifact) {
    Expected<cuda::LoadedKernels> loaded = loadArtifactKernels(artifact, device);
    if (!loaded)
      return loaded.status();
    kernels = std::move(*loaded);
    Expected<cuda::Stream> made = device->makeStream();
    if (!made)
      return made.status();
    stream = std::move(*made);
    return {};
  }

  cuda::StreamHandle streamHandle() const { return stream.get(); }
  const std::string &code() const { return kernels.code; }

  Expected<Json> time(const Projection &projection, const Cublas *cublas);

private:
  Expected<cuda::DevicePointer> zeros(uint64_t bytes);
  Expected<cuda::DevicePointer> sizesOnDevice(const StepSizes &sizes);
  Status bind(const Projection &projection);
  Status launch(const Projection &projection, uint64_t blocks, uint64_t number);
  Expected<double> micros(const std::function<Status(uint64_t number)> &run);
  Status wait() { return device->call(device->api().streamSynchronize, stream.get()); }

  const Program &program;
  std::shared_ptr<const cuda::Device> device;
  int64_t launches;
  cuda::LoadedKernels kernels;
  cuda::Stream stream;
  std::vector<cuda::Memory> held;            ///< of the projection at hand
  std::vector<cuda::DevicePointer> pointers; ///< of its arguments, then of the sizes
  size_t weightArgument = 0;
  uint64_t copies = 1;
};

Expected<cuda::DevicePointer> Bench::zeros(uint64_t bytes) {
  Expected<cuda::Memory> made = device->allocate(std::max<uint64_t>(bytes, 1), "a projection");
  if (!made)
    return made.status();
  held.push_back(std::move(*made));
  if (Status status =
          device->call(device->api().memset, held.back().pointer(), static_cast<unsigned char>(0),
                       size_t(held.back().bytes), stream.get());
      !status)
    return status;
  if (Status status = wait(); !status)
    return status;
  return held.back().pointer();
}

Expected<cuda::DevicePointer> Bench::sizesOnDevice(const StepSizes &sizes) {
  GemmaSizes content = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
  Expected<cuda::DevicePointer> place = zeros(sizeof content);
  if (!place)
    return place;
  Expected<cuda::Staging> staging = cuda::Staging::create(device, 4096);
  if (!staging)
    return staging.status();
  if (Status status = staging->upload(*place, std::as_bytes(std::span(&content, 1))); !status)
    return status;
  if (Status status = staging->finish(); !status)
    return status;
  return place;
}

/// Memory for every argument.
Status Bench::bind(const Projection &projection) {
  held.clear();
  pointers.clear();
  for (const LaunchArgument &argument : projection.launch->arguments) {
    uint64_t bytes = argument.bytes;
    if (argument.kind == Kind::Weight) {
      const WeightRecipe &weight = program.weights[size_t(argument.index)];
      bytes = weight.bytes;
      if (&weight == projection.weight) {
        // A weight that stays in the cache from launch to launch would be a weight that a model
        // never sees.
        auto cache = uint64_t(device->attribute(cuda::L2CacheSize).value_or(likelyCache));
        copies = std::clamp<uint64_t>(2 * cache / bytes + 1, 1, mostCopies);
        weightArgument = pointers.size();
        bytes *= copies;
      }
    } else if (argument.kind == Kind::Output) {
      for (const OutputPlan &output : program.outputs)
        if (output.name == argument.name)
          bytes = outputBytes(output, program.limits).value_or(0);
    }
    Expected<cuda::DevicePointer> made = zeros(bytes);
    if (!made)
      return made.status();
    pointers.push_back(*made);
  }
  Expected<cuda::DevicePointer> sizes = sizesOnDevice(projection.sizes);
  if (!sizes)
    return sizes.status();
  pointers.push_back(*sizes);
  return {};
}

Status Bench::launch(const Projection &projection, uint64_t blocks, uint64_t number) {
  std::vector<cuda::DevicePointer> values = pointers;
  values[weightArgument] += number % copies * projection.weight->bytes;
  std::vector<void *> parameters;
  parameters.reserve(values.size());
  for (cuda::DevicePointer &value : values)
    parameters.push_back(&value);
  const cuda::LoadedKernel &kernel = kernels.kernels[size_t(projection.launch->kernel)];
  return device->call(device->api().launchKernel, kernel.function, unsigned(blocks), 1u, 1u,
                      unsigned(kernel.need.threads), 1u, 1u, unsigned(kernel.need.sharedBytes),
                      stream.get(), parameters.data(), static_cast<void **>(nullptr));
}

/// Of a launch, of many behind each other: the best of some rounds.
Expected<double> Bench::micros(const std::function<Status(uint64_t number)> &run) {
  double best = 0;
  uint64_t number = 0;
  for (int round = -1; round < rounds; ++round) { // the first is not counted
    auto start = Clock::now();
    for (int64_t i = 0; i < launches; ++i)
      if (Status status = run(number++); !status)
        return status;
    if (Status status = wait(); !status)
      return status;
    double each =
        std::chrono::duration<double, std::micro>(Clock::now() - start).count() / double(launches);
    if (round == 0 || (round > 0 && each < best))
      best = each;
  }
  return best;
}

Expected<Json> Bench::time(const Projection &projection, const Cublas *cublas) {
  const KernelPlan &plan = program.kernels[size_t(projection.launch->kernel)];
  std::optional<int64_t> blocks = plan.grid.evaluate(projection.sizes);
  if (!blocks || *blocks < 1 || *blocks > int64_t(device->facts().blocksPerGrid))
    return badInput("kernel " + plan.name + ": its grid has no size for this step");
  if (Status status = bind(projection); !status)
    return status;
  std::string nodes;
  for (const std::string &node : projection.launch->nodes)
    nodes += (nodes.empty() ? "" : " ") + node;
  int64_t n = projection.weight->shape[0], k = projection.weight->shape[1];
  Json line = {{"projection", nodes},       {"kernel", plan.name}, {"n", n}, {"k", k},
               {"tokens", projection.rows}, {"copies", copies}};
  Expected<double> ours =
      micros([&](uint64_t number) { return launch(projection, uint64_t(*blocks), number); });
  if (!ours)
    return ours.status();
  line["us"] = *ours;
  line["gb_per_s"] = double(projection.weight->bytes) / *ours / 1e3;
  if (!cublas)
    return line;
  bool head = std::ranges::any_of(projection.launch->arguments, [](const LaunchArgument &argument) {
    return argument.kind == Kind::Output;
  });
  Product product{n, k, projection.rows, 0, 0, 0, head ? ScalarType::F32 : ScalarType::BF16};
  Expected<cuda::DevicePointer> x = zeros(uint64_t(projection.rows * k) * 2);
  Expected<cuda::DevicePointer> y =
      zeros(uint64_t(projection.rows * n) * byteWidth(product.output));
  if (!x || !y)
    return x ? y.status() : x.status();
  product.x = *x;
  product.y = *y;
  Expected<double> theirs = micros([&](uint64_t number) {
    product.w = pointers[weightArgument] + number % copies * projection.weight->bytes;
    return cublas->multiply(product);
  });
  if (!theirs)
    return theirs.status();
  line["cublas_us"] = *theirs;
  line["ratio"] = *ours / *theirs;
  return line;
}

} // namespace

std::vector<Projection> projectionsOf(const Program &program, int64_t tokens, bool decode) {
  std::vector<Projection> found;
  int64_t sequences = decode ? tokens : 1;
  StepSizes sizes = {tokens, sequences, decode ? 1 : tokens, decode ? 1 : tokens, sequences};
  const Variant *variant = variantFor(program, sizes);
  std::set<int64_t> seen;
  for (size_t i = 0; variant && i < variant->launches.size(); ++i) {
    const Launch &launch = variant->launches[i];
    const WeightRecipe *weight = multiplied(program, launch);
    if (!weight || !seen.insert(launch.kernel).second)
      continue;
    bool head = std::ranges::find(launch.nodes, "lm_head") != launch.nodes.end();
    found.push_back({&launch, weight, sizes, head ? sequences : tokens});
  }
  return found;
}

Status timeProjections(const Artifact &artifact, int ordinal, int64_t launches,
                       const std::function<void(const std::string &)> &print) {
  Expected<std::shared_ptr<const cuda::Device>> device = cuda::Device::open(ordinal);
  if (!device)
    return device.status();
  Bench bench(artifact, *device, launches);
  if (Status status = bench.prepare(artifact); !status)
    return status;
  auto show = [&](const Json &line) {
    print(line.dump(-1, ' ', false, Json::error_handler_t::replace));
  };
  Expected<std::unique_ptr<Cublas>> cublas = Cublas::open(*device, bench.streamHandle());
  Json first = {{"device", (*device)->title()}, {"code", bench.code()}, {"launches", launches}};
  if (cublas)
    first["cublas"] = (*cublas)->version();
  else
    first["why_no_cublas"] = cublas.error().message;
  show(first);
  const ProgramLimits &limits = artifact.program.limits;
  auto measure = [&](int64_t tokens, bool decode) -> Status {
    for (const Projection &projection : projectionsOf(artifact.program, tokens, decode)) {
      Expected<Json> line = bench.time(projection, cublas ? cublas->get() : nullptr);
      if (!line)
        return line.status();
      show(*line);
    }
    return {};
  };
  for (int64_t tokens : {1, 8, 32})
    if (tokens <= std::min({limits.maxBatch, limits.maxChunk, limits.maxLogitRows}))
      if (Status status = measure(tokens, true); !status)
        return status;
  for (int64_t tokens : {64, 512, 4096})
    if (tokens <= std::min(limits.maxChunk, limits.maxContext))
      if (Status status = measure(tokens, false); !status)
        return status;
  return {};
}

} // namespace gemma::check
