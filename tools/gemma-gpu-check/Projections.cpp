#include "tools/gemma-gpu-check/Projections.h"

#include "runtime/abi/ProgramSizes.h"
#include "runtime/abi/Variants.h"
#include "tools/gemma-gpu-check/Cublas.h"
#include "tools/gemma-gpu-check/DeviceBench.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace gemma::check {

namespace {

using Json = nlohmann::ordered_json;
using Kind = LaunchArgument::Kind;

/// Most copies of a weight that are read in turn.
constexpr uint64_t mostCopies = 16;
/// Where a device does not say how much its second-level cache holds.
constexpr int likelyCache = 50 << 20;

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
class ProjectionBench : public DeviceBench {
public:
  ProjectionBench(const Artifact &artifact, std::shared_ptr<const cuda::Device> device,
                  int64_t launches)
      : DeviceBench(std::move(device), launches), program(artifact.program) {}

  Expected<Json> time(const Projection &projection, const Cublas *cublas);

private:
  Status bind(const Projection &projection);

  const Program &program;
  std::vector<cuda::DevicePointer> pointers; ///< of its arguments, then of the sizes
  size_t weightArgument = 0;
  uint64_t copies = 1;
};

/// Memory for every argument.
Status ProjectionBench::bind(const Projection &projection) {
  release();
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

Expected<Json> ProjectionBench::time(const Projection &projection, const Cublas *cublas) {
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
  Expected<double> ours = micros([&](uint64_t number) {
    std::vector<cuda::DevicePointer> values = pointers;
    values[weightArgument] += number % copies * projection.weight->bytes;
    return launch(projection.launch->kernel, uint64_t(*blocks), std::move(values));
  });
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
  size_t index = variantFor(program, sizes);
  if (index == program.variants.size())
    return found;
  const Variant &variant = program.variants[index];
  std::set<int64_t> seen;
  for (size_t i = 0; i < variant.launches.size(); ++i) {
    const Launch &launch = variant.launches[i];
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
  ProjectionBench bench(artifact, *device, launches);
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
