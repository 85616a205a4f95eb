#include "runtime/engine/MemoryPlan.h"

#include "runtime/abi/ProgramSizes.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <unistd.h>

namespace gemma {

/// Adds `count` objects of `bytes` each, aligned.
static bool addObjects(uint64_t &sum, std::optional<uint64_t> bytes, uint64_t count = 1) {
  std::optional<uint64_t> aligned = bytes ? alignedBytes(*bytes) : std::nullopt;
  std::optional<uint64_t> total = addBytes(sum, mulBytes(aligned, count));
  if (!total)
    return false;
  sum = *total;
  return true;
}

static Error outside(const char *what, int64_t max, int64_t got) {
  return badInput(std::string(what) + ": expected 1 to " + std::to_string(max) +
                  ", what the artifact was compiled for, got " + std::to_string(got));
}

/// Counts a weight, among those of its type too. False if that leaves 63 bits.
static bool addWeight(MemoryPlan &plan, const WeightRecipe &weight, int64_t vocab) {
  uint64_t before = plan.weights;
  if (!addObjects(plan.weights, weight.bytes))
    return false;
  auto same = std::ranges::find(plan.weightTypes, weight.storage, &MemoryPlan::StoredAs::type);
  if (same == plan.weightTypes.end())
    same = plan.weightTypes.insert(same, {weight.storage, 0, 0});
  uint64_t parameters = 1;
  for (int64_t size : weight.shape)
    parameters *= uint64_t(size); // 63 bits, as the bytes are
  same->bytes += plan.weights - before;
  same->parameters += parameters;
  // Codes of 4 bits, those of the token table and the head of 8, and an f16 for every 32.
  bool matrix = weight.shape.size() == 2, table = matrix && weight.shape[0] == vocab;
  plan.asInt4 += matrix ? parameters / (table ? 1 : 2) + parameters / 16 : plan.weights - before;
  return true;
}

Expected<MemoryPlan> planMemory(const Program &program, const MemoryRequest &request) {
  const ProgramLimits &limits = program.limits;
  MemoryPlan plan;
  plan.context = request.context ? request.context : limits.maxContext;
  plan.batch = request.batch ? request.batch : limits.maxBatch;
  plan.threads = request.threads;
  if (plan.context < 1 || plan.context > limits.maxContext)
    return outside("context", limits.maxContext, plan.context);
  if (plan.batch < 1 || plan.batch > limits.maxBatch)
    return outside("batch", limits.maxBatch, plan.batch);
  if (plan.threads < 1 || plan.threads > 4096)
    return badInput("threads: expected 1 to 4096, got " + std::to_string(plan.threads));

  bool fits = true;
  for (const WeightRecipe &weight : program.weights)
    fits &= addWeight(plan, weight, program.config.vocab);
  std::ranges::sort(plan.weightTypes, std::greater<>(), &MemoryPlan::StoredAs::bytes);
  for (const TablePlan &table : program.tables)
    fits &= addObjects(plan.tables, tableLaneBytes(table), 4);
  for (const CachePlan &cache : program.caches) {
    uint64_t pages = uint64_t(cache.ring ? cache.ringPages : (plan.context + 15) / 16);
    for (size_t lane = 0; lane < cacheLaneCount; ++lane)
      if (hasLane(cache, lane))
        fits &=
            addObjects(cache.ring ? plan.slidingCache : plan.globalCache,
                       mulBytes(mulBytes(lanePageBytes(cache, lane), pages), uint64_t(plan.batch)));
    if (!cache.ring)
      plan.globalPositionBytes += positionBytes(cache).value_or(0);
    ++(cache.ring ? plan.slidingLayers : plan.globalLayers);
  }
  for (const Variant &variant : program.variants)
    plan.activations = std::max(plan.activations, variant.arenaBytes);
  plan.activations = alignedBytes(plan.activations).value_or(0);
  fits &= addObjects(plan.tickets, ticketBytes(program));
  uint64_t scratch = 0;
  for (const KernelPlan &kernel : program.kernels)
    scratch = std::max(scratch, kernel.scratchBytes);
  fits &= addObjects(plan.scratch, scratch, uint64_t(plan.threads));
  for (const OutputPlan &output : program.outputs)
    fits &= addObjects(plan.outputs, outputBytes(output, limits));
  for (size_t input = 0; input < stepInputCount; ++input)
    fits &=
        addObjects(plan.inputs, mulBytes(4, uint64_t(stepInputEntries(StepInput(input), program))));
  std::optional<uint64_t> total = 0;
  for (uint64_t part : {plan.weights, plan.slidingCache, plan.globalCache, plan.activations,
                        plan.tickets, plan.scratch, plan.outputs, plan.inputs, plan.tables})
    total = addBytes(total, part);
  if (!fits || !total)
    return badInput("memory plan: more than 63 bits of bytes");
  return plan;
}

static std::string line(const char *what, uint64_t bytes, const std::string &note = "") {
  char text[160];
  std::snprintf(text, sizeof text, "  %-22s %15llu bytes %10.2f MiB", what,
                static_cast<unsigned long long>(bytes), double(bytes) / (1 << 20));
  return text + (note.empty() ? "" : "  " + note) + "\n";
}

std::string MemoryPlan::text() const {
  std::string sequences = std::to_string(batch) + " sequence" + (batch == 1 ? "" : "s");
  std::string out = line("weights", weights);
  for (const StoredAs &part : weightTypes)
    out += line(("  " + std::string(name(part.type))).c_str(), part.bytes,
                std::to_string(part.parameters) + " parameters");
  out += line("KV, sliding layers", slidingCache,
              std::to_string(slidingLayers) + " layers, " + sequences);
  out += line("KV, global layers", globalCache,
              std::to_string(globalLayers) + " layers, " + sequences + " of " +
                  std::to_string(context) + " positions of " + std::to_string(globalPositionBytes) +
                  " bytes");
  out += line("activations", activations);
  out += line("tickets", tickets);
  out += line("scratch", scratch, std::to_string(threads) + " thread" + (threads == 1 ? "" : "s"));
  out += line("outputs", outputs);
  out += line("step inputs", inputs);
  out += line("angle tables", tables);
  out +=
      line("total", total(), "all taken when the model is loaded; mapped weights as they are read");
  return out;
}

/// A file that holds one number; nothing if it does not ("max").
static std::optional<uint64_t> numberIn(const char *path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value)
    return value;
  return std::nullopt;
}

uint64_t availableMemory() {
  uint64_t available = UINT64_MAX;
  std::ifstream meminfo("/proc/meminfo");
  std::string key, unit;
  uint64_t kibibytes = 0;
  while (meminfo >> key >> kibibytes) {
    std::getline(meminfo, unit);
    if (key == "MemAvailable:") {
      available = kibibytes * 1024;
      break;
    }
  }
  std::optional<uint64_t> limit = numberIn("/sys/fs/cgroup/memory.max");
  std::optional<uint64_t> used = numberIn("/sys/fs/cgroup/memory.current");
  if (limit && used) {
    // The page cache counts as used but is given back.
    uint64_t cached = 0, value = 0;
    std::ifstream stat("/sys/fs/cgroup/memory.stat");
    while (stat >> key >> value)
      if (key == "inactive_file" || key == "active_file")
        cached += value;
    uint64_t held = *used - std::min(*used, cached);
    available = std::min(available, *limit - std::min(*limit, held));
  }
  return available;
}

std::optional<uint64_t> residentMemory() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0, resident = 0;
  if (statm >> pages >> resident)
    return resident * uint64_t(::sysconf(_SC_PAGESIZE));
  return std::nullopt;
}

static std::string mebibytes(uint64_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f MiB", double(bytes) / (1 << 20));
  return text;
}

/// What would take less than `bytes`: all of the plan, or all but weights that the host has.
static std::string advice(const MemoryPlan &plan, uint64_t bytes) {
  std::string text = "a smaller --context takes less";
  if (plan.asInt4 < plan.weights - plan.weights / 8)
    text += "; weights of gemma-compile --weight-type int4 take some " + mebibytes(plan.asInt4) +
            " in place of " + mebibytes(plan.weights);
  if (bytes > plan.total() - plan.weights)
    text += "; a file of gemma-compile --pack-weights is mapped and need not fit";
  return text;
}

std::string fitText(const MemoryPlan &plan, uint64_t available) {
  std::string text = mebibytes(plan.total()) + " of " +
                     (available == UINT64_MAX ? "an unknown amount" : mebibytes(available)) +
                     " that " + (available == UINT64_MAX ? "is" : "are") + " free here: ";
  if (plan.total() <= available)
    return text + "it fits";
  uint64_t rest = plan.total() - plan.weights;
  text += "it does not fit; " + advice(plan, plan.total());
  if (rest <= available)
    text += " (the rest, " + mebibytes(rest) + ", does fit, but every step would read " +
            mebibytes(plan.total() - available) + " or more from the disk)";
  return text;
}

std::string mappedText(const MemoryPlan &plan, uint64_t available) {
  if (plan.total() <= available)
    return {};
  return mebibytes(plan.weights) + " of weights are mapped beside " +
         mebibytes(plan.total() - plan.weights) + ", " + mebibytes(available) +
         " of memory are free: every step reads " + mebibytes(plan.total() - available) +
         " or more from the disk again";
}

Status checkMemory(uint64_t bytes, const MemoryPlan &plan) {
  uint64_t available = availableMemory();
  if (bytes <= available)
    return {};
  return badInput("not enough memory: expected " + std::to_string(bytes) + " bytes free, got " +
                  std::to_string(available) + "; the plan is\n" + plan.text() +
                  advice(plan, bytes));
}

} // namespace gemma
