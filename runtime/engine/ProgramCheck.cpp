#include "runtime/engine/ProgramCheck.h"

#include "runtime/abi/ProgramSizes.h"
#include "runtime/support/Json.h"
#include "runtime/support/Problems.h"

#include <cmath>
#include <set>

namespace gemma {

namespace {

using Kind = LaunchArgument::Kind;

/// Of the smallest element. Objects begin on 64 bytes; a view into the rows of one (the keys in a
/// row of queries, keys and values) begins on any element.
constexpr uint64_t elementAlignment = 2;

/// The bytes [begin, end) of one object, to compare with others.
struct ByteRange {
  Kind kind;
  int64_t object; ///< the arena is one object, so is every output, input, weight and lane
  uint64_t begin, end;

  bool overlaps(const ByteRange &other) const {
    return kind == other.kind && object == other.object && begin < other.end && other.begin < end;
  }
};

class Checker {
public:
  Checker(const Program &program, std::string where) : program(program), where(std::move(where)) {}

  Status run() {
    checkLimits();
    checkWeights();
    checkCaches();
    checkTables();
    checkKernels();
    checkOutputs();
    // Sizes used below are only meaningful once the lists are sound.
    if (!problems.empty())
      return problems.error();
    if (program.variants.empty())
      fail("variants", "expected at least one, got none");
    for (size_t i = 0; i < program.variants.size(); ++i)
      checkVariant(program.variants[i], "variants[" + std::to_string(i) + "]");
    return problems.empty() ? Status() : Status(problems.error());
  }

private:
  void fail(const std::string &place, const std::string &what) {
    problems.add(where + ": program." + place + ": " + what);
  }

  void range(const char *key, int64_t value, int64_t min, int64_t max) {
    if (value < min || value > max)
      fail(key, "expected " + std::to_string(min) + " to " + std::to_string(max) + ", got " +
                    std::to_string(value));
  }

  void checkLimits() {
    const ProgramLimits &limits = program.limits;
    range("limits.maxContext", limits.maxContext, 1, maxSupportedContext);
    range("limits.maxBatch", limits.maxBatch, 1, maxSupportedBatch);
    range("limits.maxChunk", limits.maxChunk, 1, maxSupportedContext);
    range("limits.maxLogitRows", limits.maxLogitRows, 0, maxSupportedContext);
    range("config.vocab", program.config.vocab, 1, INT32_MAX);
  }

  void checkWeights() {
    std::set<std::string> names;
    for (size_t i = 0; i < program.weights.size(); ++i) {
      const WeightRecipe &weight = program.weights[i];
      std::string place = "weights[" + std::to_string(i) + "]";
      if (!names.insert(weight.name).second)
        fail(place + ".name", quoteForMessage(weight.name) + " is there twice");
      if (weight.sources.empty())
        fail(place + ".sources", "expected at least one tensor");
      std::optional<uint64_t> bytes = packedBytes(weight);
      if (!bytes)
        fail(place, "a layout that the packer does not know, or more than 63 bits of bytes");
      else if (*bytes != weight.bytes)
        fail(place + ".bytes",
             "expected " + std::to_string(*bytes) + ", got " + std::to_string(weight.bytes));
    }
  }

  void checkCaches() {
    const CachePlan *ring = nullptr;
    for (size_t i = 0; i < program.caches.size(); ++i) {
      const CachePlan &cache = program.caches[i];
      std::string place = "caches[" + std::to_string(i) + "]";
      if (cache.page != 16)
        fail(place + ".page", "expected 16, got " + std::to_string(cache.page));
      if (!isFloat(cache.elem) && cache.elem != ScalarType::I8)
        fail(place + ".elem", "expected a float type or i8, got " + std::string(name(cache.elem)));
      std::optional<uint64_t> page = lanePageBytes(cache, 1);
      int64_t pages = cache.ring ? cache.ringPages : program.pagesPerSequence();
      if (page && cache.elem == ScalarType::I8)
        page = addBytes(page, lanePageBytes(cache, 3));
      if (!page || !mulBytes(mulBytes(page, uint64_t(pages)), maxSupportedBatch * 2))
        fail(place, "expected positive sizes within 63 bits of bytes");
      if (!cache.ring)
        continue;
      // After a chunk is appended the window of its first token must still be there; taking back a
      // chunk needs no more.
      int64_t least = cache.window + program.limits.maxChunk - 1;
      if (cache.window < 1 || cache.ringPages > INT32_MAX / maxSupportedBatch ||
          cache.ringPages < (least + 15) / 16)
        fail(place + ".ringPages", "expected pages for a window of " +
                                       std::to_string(cache.window) + " and a chunk of " +
                                       std::to_string(program.limits.maxChunk) + ", got " +
                                       std::to_string(cache.ringPages));
      if (ring && ring->ringPages != cache.ringPages)
        fail(place + ".ringPages", "expected " + std::to_string(ring->ringPages) +
                                       " as in the other rings, got " +
                                       std::to_string(cache.ringPages));
      ring = &cache;
    }
  }

  void checkTables() {
    for (size_t i = 0; i < program.tables.size(); ++i) {
      const TablePlan &table = program.tables[i];
      std::string place = "tables[" + std::to_string(i) + "]";
      if (!(table.theta > 0) || !std::isfinite(table.theta))
        fail(place + ".theta", "expected a positive number");
      if (table.denominator <= 0 || table.active <= 0 || table.active > table.denominator)
        fail(place + ".active", "expected 1 to denominator");
      else if (!tableLaneBytes(table) || table.active > (int64_t(1) << 24))
        fail(place + ".active", "expected less than 2^24 frequencies");
      if (table.elem != ScalarType::F64 && table.elem != ScalarType::F32)
        fail(place + ".elem", "expected f64 or f32, got " + std::string(name(table.elem)));
    }
  }

  void checkKernels() {
    std::set<std::string> names;
    for (size_t i = 0; i < program.kernels.size(); ++i) {
      const KernelPlan &kernel = program.kernels[i];
      std::string place = "kernels[" + std::to_string(i) + "]";
      if (kernel.name.empty() || !names.insert(kernel.name).second)
        fail(place + ".name",
             "expected a name that is there once, got " + quoteForMessage(kernel.name));
      if (kernel.scratchBytes > (uint64_t(1) << 32))
        fail(place + ".scratchBytes",
             "expected at most 4 GiB, got " + std::to_string(kernel.scratchBytes));
      // No device has blocks of more threads, or more shared memory (CUDA C++ Programming Guide).
      bool onHost = program.family == DeviceFamily::Host;
      if (onHost ? kernel.threads != 0
                 : kernel.threads < 32 || kernel.threads > 1024 || kernel.threads % 32 != 0)
        fail(place + ".threads",
             std::string("expected ") +
                 (onHost ? "0 on the host" : "a multiple of 32 from 32 to 1024") + ", got " +
                 std::to_string(kernel.threads));
      if (kernel.sharedBytes > (onHost ? 0 : 227 * 1024))
        fail(place + ".sharedBytes", std::string("expected at most ") +
                                         (onHost ? "0 on the host" : "227 KiB") + ", got " +
                                         std::to_string(kernel.sharedBytes));
    }
  }

  void checkOutputs() {
    std::set<std::string> names;
    for (size_t i = 0; i < program.outputs.size(); ++i) {
      const OutputPlan &output = program.outputs[i];
      std::string place = "outputs[" + std::to_string(i) + "]";
      if (output.name.empty() || !names.insert(output.name).second)
        fail(place + ".name",
             "expected a name that is there once, got " + quoteForMessage(output.name));
      if (!isFloat(output.type) && (output.type != ScalarType::I32 || output.name != topIdsName))
        fail(place + ".type", std::string("expected a float type, or i32 of top_ids, got ") +
                                  std::string(name(output.type)));
      if (!outputBytes(output, program.limits))
        fail(place, "expected at most 63 bits of bytes");
    }
  }

  /// Where an argument lies; nothing (and a problem) if it is not inside its object.
  std::optional<ByteRange> locate(const LaunchArgument &argument, const Variant &variant,
                                  const std::string &place) {
    ByteRange range{argument.kind, argument.index, argument.offset, 0};
    switch (argument.kind) {
    case Kind::Tickets:
      // A ticket a block at most, of which a launch has less than 2^31.
      if (argument.bytes == 0 || argument.bytes % 4 != 0 || argument.bytes > uint64_t(1) << 33) {
        fail(place + ".bytes", "expected a positive multiple of 4 up to 8 GiB, got " +
                                   std::to_string(argument.bytes));
        return std::nullopt;
      }
      return ByteRange{argument.kind, 0, 0, argument.bytes};
    case Kind::Buffer:
    case Kind::Workspace: {
      std::optional<uint64_t> end = addBytes(argument.offset, argument.bytes);
      range.kind = Kind::Buffer; // both lie in the arena
      range.object = 0;
      range.end = end.value_or(0);
      if (!end || *end > variant.arenaBytes || argument.bytes == 0) {
        fail(place, "expected bytes inside the arena of " + std::to_string(variant.arenaBytes) +
                        ", got " + std::to_string(argument.bytes) + " at " +
                        std::to_string(argument.offset));
        return std::nullopt;
      }
      if (argument.offset % elementAlignment != 0) {
        fail(place + ".offset", "expected a multiple of 2, got " + std::to_string(argument.offset));
        return std::nullopt;
      }
      if (argument.kind == Kind::Workspace)
        return range;
      std::optional<uint64_t> rows = rowsBytes(argument, program.limits);
      if (!rows || *rows > argument.bytes) {
        fail(place, "expected rows apart and within " + std::to_string(argument.bytes) +
                        " bytes, got " +
                        std::to_string(largestRows(argument.extent, program.limits)) + ", " +
                        std::to_string(argument.stride) + " elements apart");
        return std::nullopt;
      }
      return range;
    }
    case Kind::Weight:
      range.end = program.weights[size_t(argument.index)].bytes;
      break;
    case Kind::Cache: {
      // Lanes are objects of their own; how many pages there are is known at run time.
      const CachePlan &cache = program.caches[size_t(argument.index)];
      size_t lane = cacheLaneFromName(argument.name);
      if (!hasLane(cache, lane)) {
        fail(place + ".lane", cache.keys
                                  ? "expected k or v of a cache of " +
                                        std::string(name(cache.elem)) + ", got " + argument.name
                                  : "expected v of a cache of values alone, got " + argument.name);
        return std::nullopt;
      }
      range.object = argument.index * int64_t(cacheLaneCount) + int64_t(lane);
      range.end = lanePageBytes(cache, lane).value_or(0);
      break;
    }
    case Kind::Table:
      range.end = *tableLaneBytes(program.tables[size_t(argument.index)]);
      break;
    case Kind::Input: {
      std::optional<StepInput> input = stepInputFromName(argument.name);
      if (!input) {
        fail(place + ".name", "unknown input " + quoteForMessage(argument.name));
        return std::nullopt;
      }
      range.object = int64_t(*input);
      range.end = uint64_t(stepInputEntries(*input, program)) * 4;
      break;
    }
    case Kind::Output: {
      size_t index = 0;
      while (index < program.outputs.size() && program.outputs[index].name != argument.name)
        ++index;
      if (index == program.outputs.size()) {
        fail(place + ".name", "unknown output " + quoteForMessage(argument.name));
        return std::nullopt;
      }
      range.object = int64_t(index);
      range.end = *outputBytes(program.outputs[index], program.limits);
      break;
    }
    }
    // An array of no entries (logit rows of a program without logits) may still be named.
    if (argument.offset % elementAlignment != 0 || argument.offset > range.end ||
        (argument.offset == range.end && range.end != 0)) {
      fail(place + ".offset", "expected a multiple of 2 below " + std::to_string(range.end) +
                                  ", got " + std::to_string(argument.offset));
      return std::nullopt;
    }
    return range;
  }

  static bool constant(Kind kind) {
    return kind == Kind::Weight || kind == Kind::Table || kind == Kind::Input;
  }

  void checkLaunch(const Launch &launch, const Variant &variant, const std::string &place) {
    const KernelPlan &kernel = program.kernels[size_t(launch.kernel)];
    if (launch.arguments.size() != kernel.access.size()) {
      fail(place + ".arguments", "expected " + std::to_string(kernel.access.size()) +
                                     " as kernel " + quoteForMessage(kernel.name) + " takes, got " +
                                     std::to_string(launch.arguments.size()));
      return;
    }
    std::vector<ByteRange> ranges;
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      std::string argumentPlace = place + ".arguments[" + std::to_string(i) + "]";
      std::optional<ByteRange> range = locate(launch.arguments[i], variant, argumentPlace);
      if (!range)
        return;
      if (kernel.access[i] != 0 && constant(range->kind))
        fail(argumentPlace, "a constant that the kernel writes");
      ranges.push_back(*range);
    }
    for (size_t i = 0; i < ranges.size(); ++i)
      for (size_t j = i + 1; j < ranges.size(); ++j)
        if ((kernel.access[i] != 0 || kernel.access[j] != 0) && ranges[i].overlaps(ranges[j]))
          fail(place, "arguments " + std::to_string(i) + " and " + std::to_string(j) +
                          " overlap and one is written");
  }

  void checkVariant(const Variant &variant, const std::string &place) {
    if (!alignedBytes(variant.arenaBytes))
      fail(place + ".arenaBytes", "expected less than 63 bits");
    for (size_t i = 0; i < variant.launches.size(); ++i)
      checkLaunch(variant.launches[i], variant, place + ".launches[" + std::to_string(i) + "]");
  }

  const Program &program;
  std::string where;
  Problems problems;
};

} // namespace

Status checkProgram(const Program &program, const std::string &where) {
  // Indices come from JSON, where they are checked, or from the compiler.
  for (const Variant &variant : program.variants)
    for (const Launch &launch : variant.launches) {
      if (launch.kernel < 0 || launch.kernel >= int64_t(program.kernels.size()))
        return badInput(where + ": program: launch of kernel " + std::to_string(launch.kernel) +
                        " of " + std::to_string(program.kernels.size()));
      for (const LaunchArgument &argument : launch.arguments) {
        size_t count = argument.kind == Kind::Weight  ? program.weights.size()
                       : argument.kind == Kind::Cache ? program.caches.size()
                       : argument.kind == Kind::Table ? program.tables.size()
                                                      : SIZE_MAX;
        if (count != SIZE_MAX && (argument.index < 0 || size_t(argument.index) >= count))
          return badInput(where + ": program: launch argument with index " +
                          std::to_string(argument.index) + " of " + std::to_string(count));
      }
    }
  return Checker(program, where).run();
}

} // namespace gemma
