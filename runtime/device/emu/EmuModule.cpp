#include "runtime/device/emu/EmuModule.h"

#include "runtime/device/CpuFeatures.h"
#include "runtime/support/JsonObject.h"

#include <sstream>

namespace gemma::emu {

/// The symbol's address. KernelObject speaks of host kernels; an emulated one has another type.
static Expected<void *> symbolOf(const KernelObject &object, const std::string &name) {
  Expected<GemmaKernel> symbol = object.kernel(name);
  if (!symbol)
    return symbol.status();
  return reinterpret_cast<void *>(*symbol);
}

Expected<Module> Module::load(std::string_view elf, const std::string &where) {
  const std::vector<std::string> needed = {"avx2", "fma", "f16c", "bmi", "bmi2"};
  if (std::string_view feature = missingFeature(needed); !feature.empty())
    return badInput(where + ": the emulated device needs a processor with " + std::string(feature) +
                    "; " + cpuName() + " has none");
  Expected<KernelObject> object = KernelObject::load(elf, where);
  if (!object)
    return object.status();
  Module module;
  module.where = where;
  module.loaded.push_back(*object);
  Expected<void *> description = symbolOf(*object, GEMMA_EMU_MODULE_SYMBOL);
  if (!description)
    return description.status();
  Expected<nlohmann::json> json = parseJson(static_cast<const char *>(*description), where);
  if (!json)
    return json.status();
  // What the compiler wrote is trusted no more than any other file.
  Problems problems;
  JsonObject root(*json, where, "", problems);
  root.requiredInteger("version", {GEMMA_EMU_ABI_VERSION, GEMMA_EMU_ABI_VERSION});
  module.hash = root.string("ptxHash").value_or("");
  module.targetName = root.string("target").value_or("");
  std::istringstream ptx(root.string("ptx").value_or(""));
  for (std::string line; std::getline(ptx, line);)
    module.text.push_back(line);
  for (auto [key, numbers] : {std::pair("lines", &module.lines), {"sources", &module.sources}})
    if (const nlohmann::json *list = root.find(key); list && list->is_array())
      for (const nlohmann::json &number : *list)
        numbers->push_back(unsigned(asInteger(number).value_or(0)));
  if (const nlohmann::json *list = root.find("nodes"); list && list->is_array())
    for (const nlohmann::json &node : *list)
      module.nodeNames.push_back(node.is_string() ? node.get<std::string>() : "");
  constexpr int64_t most = int64_t(1) << 40;
  if (const nlohmann::json *list = root.find("kernels"); list && list->is_array())
    for (const nlohmann::json &entry : *list) {
      JsonObject read(entry, where, "kernels", problems);
      Kernel kernel;
      kernel.name = read.string("name").value_or("");
      kernel.paramBytes = uint64_t(read.requiredInteger("paramBytes", {0, 1 << 16}).value_or(0));
      kernel.staticShared = uint64_t(read.requiredInteger("staticShared", {0, most}).value_or(0));
      kernel.maxThreads = uint64_t(read.requiredInteger("maxThreads", {0, most}).value_or(0));
      kernel.firstSite = size_t(read.requiredInteger("firstSite", {0, most}).value_or(0));
      kernel.endSite = size_t(read.requiredInteger("endSite", {0, most}).value_or(0));
      if (const nlohmann::json *params = read.find("params"); params && params->is_array())
        for (const nlohmann::json &param : *params)
          if (param.is_array() && param.size() == 2)
            kernel.params.push_back({uint64_t(asInteger(param[0]).value_or(0)),
                                     uint64_t(asInteger(param[1]).value_or(0))});
      Expected<void *> function = symbolOf(*object, kernel.name);
      if (!function)
        return function.status();
      kernel.function = reinterpret_cast<EmuKernel>(*function);
      module.kernelList.push_back(std::move(kernel));
    }
  if (const nlohmann::json *list = root.find("globals"); list && list->is_array())
    for (const nlohmann::json &entry : *list) {
      JsonObject read(entry, where, "globals", problems);
      Global global;
      global.name = read.string("name").value_or("");
      global.bytes = uint64_t(read.requiredInteger("bytes", {0, most}).value_or(0));
      global.constant = read.boolean("constant").value_or(false);
      Expected<void *> memory = symbolOf(*object, global.name);
      if (!memory)
        return memory.status();
      global.memory = *memory;
      module.globalList.push_back(std::move(global));
    }
  if (!problems.empty())
    return problems.error();
  return module;
}

Expected<const Module::Kernel *> Module::kernel(std::string_view name) const {
  for (const Kernel &kernel : kernelList)
    if (kernel.name == name)
      return &kernel;
  return badInput(where + ": no kernel " + std::string(name));
}

std::string_view Module::textOf(unsigned line) const {
  if (line == 0 || line > text.size())
    return {};
  std::string_view result = text[line - 1];
  size_t start = result.find_first_not_of(" \t");
  return start == std::string_view::npos ? std::string_view() : result.substr(start);
}

std::string Module::ptx() const {
  std::string result;
  for (const std::string &line : text)
    result += line + "\n";
  return result;
}

} // namespace gemma::emu
