#include "runtime/device/emu/EmuExecutor.h"

#include "runtime/support/Json.h"

#include <charconv>

namespace gemma::emu {

Expected<ContextMemory> EmuExecutor::allocate(uint64_t bytes, uint64_t visible) {
  Expected<ContextMemory> made = Executor::allocate(bytes, visible);
  if (made)
    context = made->device;
  return made;
}

Status EmuExecutor::declareMemory(const void *start, size_t bytes, const std::string &name,
                                  MemoryContent content) {
  if (bytes == 0)
    return {};
  Status status = memory.add(start, bytes, name, content == MemoryContent::Constant);
  if (status && content == MemoryContent::Unknown)
    memory.track(start);
  return status;
}

void EmuExecutor::discard(ByteRange range) {
  memory.forget(context + range.offset, size_t(range.bytes));
}

void EmuExecutor::begin(size_t, uint64_t inputBytes) { memory.wrote(context, size_t(inputBytes)); }

Status EmuExecutor::fill(ByteRange range, uint8_t value) {
  if (value == 0)
    memory.wrote(context + range.offset, size_t(range.bytes));
  else
    discard(range);
  return Executor::fill(range, value);
}

std::vector<std::string> nodesOfLaunch(std::span<const std::string> ofKernel,
                                       std::span<const std::string> ofLaunch) {
  // "layers[3].attn.rope" -> ".attn.rope"; names outside of layers stay whole.
  auto inLayer = [](std::string_view node) {
    size_t end = node.starts_with("layers[") ? node.find(']') : std::string_view::npos;
    return end == std::string_view::npos ? node : node.substr(end + 1);
  };
  constexpr std::string_view between = " + ";
  std::vector<std::string> result;
  for (std::string_view rest : ofKernel) {
    std::string &joined = result.emplace_back();
    for (bool more = true; more;) {
      size_t end = rest.find(between);
      more = end != std::string_view::npos;
      std::string_view part = rest.substr(0, end);
      rest.remove_prefix(more ? end + between.size() : rest.size());
      for (const std::string &node : ofLaunch)
        if (inLayer(node) == inLayer(part)) {
          part = node;
          break;
        }
      joined += (joined.empty() ? "" : between);
      joined += part;
    }
  }
  return result;
}

Status EmuExecutor::run(const KernelCall &call) {
  if (call.blocks == 0)
    return {};
  const EmulatedKernel &kernel = kernels[call.kernel];
  if (call.blocks > UINT32_MAX)
    return internalError("kernel " + kernel.name + ": expected less than 2^32 blocks, got " +
                         std::to_string(call.blocks));
  ParamBuilder params;
  for (void *argument : call.arguments)
    params.add(argument);
  params.add(call.sizes);
  LaunchOptions here = options;
  for (const std::string &node : call.nodes)
    here.node += (here.node.empty() ? "" : ", ") + node;
  here.nodes = nodesOfLaunch(kernel.module.nodes(), call.nodes);
  if (measurement.blocks) {
    here.sampledBlocks = measurement.blocks(call);
    here.counters = true;
    if (here.sampledBlocks.empty())
      return {};
  }
  Expected<LaunchReport> report =
      launch(kernel.module, kernel.name, {uint32_t(call.blocks), 1, 1}, {kernel.threads, 1, 1},
             kernel.sharedBytes, params.bytes(), memory, pool, here);
  if (!report)
    return report.status();
  if (!report->completed || !report->findings.empty())
    return internalError("the emulated device found faults:\n" + report->messages());
  if (measurement.report)
    measurement.report(call, *report);
  return {};
}

static Error wrong(std::string_view text, const char *expected) {
  return usage("GEMMA_EMU: expected " + std::string(expected) + ", got " + quoteForMessage(text));
}

Expected<LaunchOptions> launchOptionsFrom(std::string_view text) {
  LaunchOptions options;
  while (!text.empty()) {
    std::string_view setting = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), setting.size() + 1));
    std::string_view key = setting.substr(0, setting.find('='));
    std::string_view value = setting.substr(std::min(setting.size(), key.size() + 1));
    if (key == "order") {
      if (value == "forward")
        options.order = Order::Forward;
      else if (value == "reverse")
        options.order = Order::Reverse;
      else if (value == "random")
        options.order = Order::Random;
      else
        return wrong(setting, "order=forward, reverse or random");
    } else if (key == "async") {
      if (value == "latest")
        options.asyncMode = AsyncMode::Latest;
      else if (value == "earliest")
        options.asyncMode = AsyncMode::Earliest;
      else if (value == "random")
        options.asyncMode = AsyncMode::Random;
      else
        return wrong(setting, "async=latest, earliest or random");
    } else if (key == "seed") {
      auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), options.seed);
      if (value.empty() || error != std::errc() || end != value.data() + value.size())
        return wrong(setting, "seed=NUMBER");
    } else if (key == "mma") {
      if (value == "nearest")
        options.mmaRounding = MmaRounding::Nearest;
      else if (value == "truncate")
        options.mmaRounding = MmaRounding::Truncated;
      else
        return wrong(setting, "mma=nearest or truncate");
    } else if (key == "checks" && (value == "on" || value == "off")) {
      options.checkBounds = options.checkRaces = value == "on";
    } else {
      return wrong(setting, "order=..., async=..., seed=..., mma=... or checks=on or off");
    }
  }
  return options;
}

} // namespace gemma::emu
