#include "runtime/engine/Inspect.h"

#include "runtime/abi/KernelAbi.h"
#include "runtime/abi/ProgramJson.h"
#include "runtime/abi/ProgramSizes.h"
#include "runtime/engine/MemoryPlan.h"

#include <algorithm>

namespace gemma {

using nlohmann::json;

namespace {

template <typename T> std::string join(const std::vector<T> &list, const char *separator) {
  std::string out;
  for (const T &item : list) {
    if (!out.empty())
      out += separator;
    if constexpr (std::is_same_v<T, std::string>)
      out += item;
    else
      out += std::to_string(item);
  }
  return out;
}

class Printer {
public:
  explicit Printer(const Artifact &artifact) : artifact(artifact), program(artifact.program) {}

  std::string run() {
    header();
    objects();
    weights();
    caches();
    kernels();
    for (const Variant &one : program.variants)
      variant(one);
    return std::move(out);
  }

private:
  void line(const std::string &text) { out += text + "\n"; }

  void header() {
    const ModelConfig &config = program.config;
    auto sliding =
        std::count(config.layerKinds.begin(), config.layerKinds.end(), LayerKind::Sliding);
    line("artifact " + artifact.identity);
    line("  format " + std::to_string(artifactFormatVersion) + ", kernel ABI " +
         std::to_string(GEMMA_KERNEL_ABI_VERSION) + ", compiler " + artifact.compilerVersion +
         ", requires " +
         (artifact.requiredFeatures.empty() ? "nothing" : join(artifact.requiredFeatures, ", ")));
    line("model " + artifact.modelName);
    line("  " + std::to_string(config.layers()) + " layers (" + std::to_string(sliding) +
         " sliding, " + std::to_string(config.layers() - sliding) + " global), hidden " +
         std::to_string(config.hidden) + ", MLP " + std::to_string(config.intermediate) +
         ", vocabulary " + std::to_string(config.vocab) + ", " + std::to_string(config.heads) +
         " heads");
    line("  numerics " + program.numerics + (program.fused ? ", fused" : ", not fused"));
    line("  context " + std::to_string(program.limits.maxContext) + ", sequences " +
         std::to_string(program.limits.maxBatch) + ", tokens a step " +
         std::to_string(program.limits.maxChunk) + ", logit rows a step " +
         std::to_string(program.limits.maxLogitRows));
    line("  end tokens " + join(artifact.eosIds, ", ") + "; tokenizer " +
         (artifact.tokenizer ? std::to_string(artifact.tokenizer->size()) + " bytes" : "none"));
    line("  weights in " +
         (artifact.checkpointFolder.empty() ? "no recorded folder" : artifact.checkpointFolder));
    for (const RecordedFile &file : artifact.checkpointFiles)
      line("    " + file.name + ", " + std::to_string(file.size) + " bytes");
    if (Expected<MemoryPlan> plan = planMemory(program, {}))
      out += "memory, one thread\n" + plan->text();
  }

  void objects() {
    line("objects");
    for (const KernelBinary &object : artifact.objects)
      line("  " + object.name +
           (object.kind == ObjectKind::Host
                ? ", "
                : std::string(", ") + objectKindName(object.kind) + ", ") +
           std::to_string(object.bytes.size()) + " bytes, needs " +
           (object.features.empty() ? "nothing" : join(object.features, " ")));
  }

  void weights() {
    line("weights");
    for (const WeightRecipe &weight : program.weights) {
      std::string layout = weight.panel == 0 ? "rows"
                                             : "panel " + std::to_string(weight.panel) + " kpack " +
                                                   std::to_string(weight.kpack);
      if (weight.interleave != 1)
        layout += " interleave " + std::to_string(weight.interleave);
      line("  " + weight.name + " " + join(weight.shape, "x") + "x" +
           std::string(name(weight.storage)) + ", " + layout + ", " + std::to_string(weight.bytes) +
           " bytes, from " + join(weight.sources, " "));
    }
  }

  void caches() {
    line("caches");
    for (const CachePlan &cache : program.caches)
      line("  " + cache.name + " " + (cache.ring ? "ring" : "paged") + ", heads " +
           std::to_string(cache.heads) + ", dim " + std::to_string(cache.dim) + ", " +
           std::string(name(cache.elem)) +
           (cache.elem == ScalarType::I8 ? " with an f32 scale a position and head" : "") +
           ", lanes " + (cache.keys ? "k, v" : "v") +
           (cache.ring ? ", window " + std::to_string(cache.window) + ", pages of a sequence " +
                             std::to_string(cache.ringPages)
                       : ""));
    line("angle tables");
    for (const TablePlan &table : program.tables)
      line("  " + table.name + ", denominator " + std::to_string(table.denominator) + ", active " +
           std::to_string(table.active) + ", " + std::string(name(table.elem)));
    line("outputs");
    for (const OutputPlan &output : program.outputs)
      line("  " + output.name + " [" + output.extent + ", " + join(output.shape, ", ") + "] " +
           std::string(name(output.type)));
  }

  void kernels() {
    line("kernels");
    for (const KernelPlan &kernel : program.kernels) {
      std::string access;
      for (uint8_t one : kernel.access)
        access += (access.empty() ? "" : ", ") + std::string(accessName(one));
      line("  " + kernel.name + " grid " + sizeExprToText(kernel.grid) + ", scratch " +
           std::to_string(kernel.scratchBytes) + " bytes, " +
           (kernel.threads ? std::to_string(kernel.threads) + " threads, shared " +
                                 std::to_string(kernel.sharedBytes) + " bytes, "
                           : "") +
           "hash " + kernel.hash + ", (" + access + ")");
    }
  }

  /// "[T, 16, 256] f32", with the stride of rows that do not lie side by side.
  static std::string rows(const LaunchArgument &buffer) {
    std::string shape = join(buffer.shape, ", ");
    if (buffer.extent != '1')
      shape = std::string(1, buffer.extent) + (shape.empty() ? "" : ", ") + shape;
    bool apart = rowElements(buffer) != uint64_t(buffer.stride);
    return "[" + shape + "] " + std::string(name(buffer.type)) +
           (apart ? " stride " + std::to_string(buffer.stride) : "");
  }

  std::string argument(const LaunchArgument &argument) const {
    using Kind = LaunchArgument::Kind;
    std::string offset = argument.offset ? "+" + std::to_string(argument.offset) : "";
    switch (argument.kind) {
    case Kind::Buffer:
      return "arena+" + std::to_string(argument.offset) + " " + rows(argument);
    case Kind::Workspace:
      return "workspace+" + std::to_string(argument.offset) + " " + std::to_string(argument.bytes) +
             " bytes";
    case Kind::Tickets:
      return "tickets " + std::to_string(argument.bytes) + " bytes";
    case Kind::Weight:
      return "@" + program.weights[size_t(argument.index)].name + offset;
    case Kind::Cache:
      return "@" + program.caches[size_t(argument.index)].name + "." + argument.name + offset;
    case Kind::Table:
      return "@" + program.tables[size_t(argument.index)].name + "." + argument.name + offset;
    case Kind::Input:
    case Kind::Output:
      return argument.name + offset;
    }
    return "?";
  }

  void variant(const Variant &variant) {
    std::vector<std::string> conditions;
    for (const SizeCondition &condition : variant.conditions)
      conditions.push_back(sizeExprToText(condition.expr) +
                           (condition.equality ? " = 0" : " >= 0"));
    line("variant " + variant.name + (conditions.empty() ? "" : " when " + join(conditions, ", ")) +
         ": " + std::to_string(variant.launches.size()) + " launches, arena " +
         std::to_string(variant.arenaBytes) + " bytes");
    for (size_t i = 0; i < variant.launches.size(); ++i) {
      const Launch &launch = variant.launches[i];
      const KernelPlan &kernel = program.kernels[size_t(launch.kernel)];
      std::vector<std::string> arguments;
      for (size_t a = 0; a < launch.arguments.size(); ++a)
        arguments.push_back(std::string(accessName(kernel.access[a])) + " " +
                            argument(launch.arguments[a]));
      line("  " + std::to_string(i) + " " + kernel.name + " (" + join(arguments, ", ") + ") " +
           join(launch.nodes, " "));
    }
  }

  const Artifact &artifact;
  const Program &program;
  std::string out;
};

} // namespace

std::string inspectText(const Artifact &artifact) { return Printer(artifact).run(); }

json inspectJson(const Artifact &artifact) {
  json objects = json::array(), files = json::array();
  for (const KernelBinary &object : artifact.objects)
    objects.push_back({{"name", object.name},
                       {"kind", objectKindName(object.kind)},
                       {"kernel", object.kernel},
                       {"features", object.features},
                       {"bytes", object.bytes.size()}});
  for (const RecordedFile &file : artifact.checkpointFiles)
    files.push_back({{"name", file.name}, {"size", file.size}, {"headerHash", file.headerHash}});
  json memory = json::object();
  if (Expected<MemoryPlan> plan = planMemory(artifact.program, {}))
    memory = {{"weights", plan->weights},         {"slidingCache", plan->slidingCache},
              {"globalCache", plan->globalCache}, {"activations", plan->activations},
              {"tickets", plan->tickets},         {"scratch", plan->scratch},
              {"outputs", plan->outputs},         {"inputs", plan->inputs},
              {"tables", plan->tables},           {"total", plan->total()}};
  return {{"identity", artifact.identity},
          {"formatVersion", artifactFormatVersion},
          {"kernelAbiVersion", GEMMA_KERNEL_ABI_VERSION},
          {"compilerVersion", artifact.compilerVersion},
          {"modelName", artifact.modelName},
          {"requiredFeatures", artifact.requiredFeatures},
          {"licence", artifact.licence},
          {"eosIds", artifact.eosIds},
          {"checkpointFolder", artifact.checkpointFolder},
          {"checkpointFiles", std::move(files)},
          {"objects", std::move(objects)},
          {"memory", std::move(memory)},
          {"program", programToJson(artifact.program)}};
}

} // namespace gemma
