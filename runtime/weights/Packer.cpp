#include "runtime/weights/Packer.h"

#include "runtime/abi/ProgramSizes.h"
#include "runtime/checkpoint/Widen.h"
#include "runtime/support/BFloat16.h"
#include "runtime/support/Json.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <thread>

namespace gemma {

namespace {

/// A stretch of a weight's rows that comes from one tensor.
struct Source {
  const TensorInfo *tensor;
  std::span<const std::byte> bytes;
  int64_t firstRow;
  int64_t rows;
};

/// Rounds a double to bf16 in one step: going through float could round twice.
uint16_t f64ToBf16(double value) {
  float narrowed = float(value);
  if (std::isnan(narrowed) || double(narrowed) == value)
    return f32ToBf16(narrowed);
  // Round to odd: float keeps 16 bits more than bf16, so a sticky last bit decides all ties.
  uint32_t bits = std::bit_cast<uint32_t>(narrowed);
  bool towardsZero = std::abs(double(narrowed)) < std::abs(value);
  if (std::isinf(narrowed) || !towardsZero)
    --bits; // the neighbour towards zero (the largest float below infinity)
  return f32ToBf16(std::bit_cast<float>(bits | 1));
}

void store(double value, double &out) { out = value; }
void store(float value, double &out) { out = value; }
void store(double value, float &out) { out = float(value); }
void store(float value, float &out) { out = value; }
void store(double value, uint16_t &out) { out = f64ToBf16(value); }
void store(float value, uint16_t &out) { out = f32ToBf16(value); }

/// Writes the rows of a weight. Elem is the stored type, Wide what its sources widen to exactly.
template <typename Elem, typename Wide> class RowWriter {
public:
  RowWriter(const WeightRecipe &recipe, const std::vector<Source> &sources, int64_t columns,
            std::byte *out)
      : recipe(recipe), sources(sources), rows(recipe.shape[0]), columns(columns),
        panelRows(recipe.panel ? recipe.panel : 16), out(reinterpret_cast<Elem *>(out)) {}

  /// Units of work: panels, or blocks of 16 rows.
  int64_t units() const {
    int64_t parts = recipe.interleave;
    return parts * ((rows / parts + panelRows - 1) / panelRows);
  }

  void run(int64_t unit) {
    row.resize(size_t(columns));
    int64_t parts = recipe.interleave, partRows = rows / parts;
    int64_t first = unit / parts * panelRows, begin = unit % parts * partRows + first;
    int64_t count = std::min(panelRows, partRows - first);
    for (int64_t r = 0; r < count; ++r) {
      read(begin + r);
      if (recipe.panel == 0)
        writeRow(begin + r);
      else if (recipe.panel == 8)
        writeTileRow(unit, r);
      else
        writePanelRow(unit, r);
    }
  }

private:
  void read(int64_t index) {
    auto source = std::upper_bound(sources.begin(), sources.end(), index,
                                   [](int64_t i, const Source &s) { return i < s.firstRow; });
    --source;
    widen(source->tensor->type, source->bytes, size_t((index - source->firstRow) * columns),
          std::span<Wide>(row));
  }

  void writeRow(int64_t index) {
    Elem *to = out + index * columns;
    for (int64_t k = 0; k < columns; ++k)
      store(row[size_t(k)], to[k]);
  }

  /// [K/kpack][16][kpack], of which this is row r.
  void writePanelRow(int64_t panel, int64_t r) {
    int64_t kpack = recipe.kpack, groups = (columns + kpack - 1) / kpack;
    Elem *to = out + panel * groups * 16 * kpack + r * kpack;
    for (int64_t k = 0; k < columns; ++k)
      store(row[size_t(k)], to[k / kpack * 16 * kpack + k % kpack]);
  }

  /// [K/64][panels][8][64] with swizzled chunks, of whose panel this is row r.
  void writeTileRow(int64_t panel, int64_t r) {
    for (int64_t k = 0; k < columns; ++k) {
      int64_t chunk = (k % 64 / 8) ^ r;
      store(row[size_t(k)], out[((k / 64 * units() + panel) * 8 + r) * 64 + chunk * 8 + k % 8]);
    }
  }

  const WeightRecipe &recipe;
  const std::vector<Source> &sources;
  int64_t rows, columns, panelRows;
  Elem *out;
  std::vector<Wide> row;
};

/// Runs units [0, n) of `make()`'s objects, one object a thread.
template <typename Make> void inParallel(int threads, int64_t count, Make &&make) {
  std::atomic<int64_t> next{0};
  auto work = [&] {
    auto worker = make();
    for (int64_t unit; (unit = next.fetch_add(1, std::memory_order_relaxed)) < count;)
      worker.run(unit);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < std::min<int64_t>(threads, count); ++i)
    others.emplace_back(work);
  work();
  for (std::thread &thread : others)
    thread.join();
}

} // namespace

/// The sources with the rows that they give.
static Expected<std::vector<Source>> findSources(const WeightRecipe &recipe,
                                                 const Checkpoint &checkpoint) {
  std::vector<Source> sources;
  int64_t rows = 0;
  std::vector<int64_t> inner(recipe.shape.begin() + 1, recipe.shape.end());
  for (const std::string &name : recipe.sources) {
    auto found = checkpoint.tensors().find(name);
    if (found == checkpoint.tensors().end())
      return badInput(checkpoint.folder().string() + ": no tensor " + quoteForMessage(name) +
                      ", which weight " + quoteForMessage(recipe.name) + " is made of");
    const TensorInfo &tensor = found->second;
    if (tensor.shape.empty() ||
        !std::equal(tensor.shape.begin() + 1, tensor.shape.end(), inner.begin(), inner.end()))
      return badInput(checkpoint.folder().string() + ": tensor " + quoteForMessage(name) +
                      " does not have the shape that weight " + quoteForMessage(recipe.name) +
                      " wants");
    sources.push_back({&tensor, checkpoint.data(tensor), rows, tensor.shape[0]});
    rows += tensor.shape[0];
  }
  if (rows != recipe.shape[0])
    return badInput(checkpoint.folder().string() + ": the tensors of weight " +
                    quoteForMessage(recipe.name) + " have " + std::to_string(rows) +
                    " rows, expected " + std::to_string(recipe.shape[0]));
  return sources;
}

Status packWeight(const WeightRecipe &recipe, const Checkpoint &checkpoint, int threads,
                  std::span<std::byte> out) {
  std::optional<uint64_t> bytes = packedBytes(recipe);
  if (!bytes || *bytes != out.size())
    return internalError("weight " + recipe.name + ": a recipe that the packer does not know");
  Expected<std::vector<Source>> sources = findSources(recipe, checkpoint);
  if (!sources)
    return sources.status();
  int64_t columns = recipe.shape.size() == 2 ? recipe.shape[1] : 1;

  if (recipe.panel == 0 && std::all_of(sources->begin(), sources->end(), [&](const Source &s) {
        return s.tensor->type == recipe.storage;
      })) {
    std::byte *to = out.data();
    for (const Source &source : *sources) {
      std::memcpy(to, source.bytes.data(), source.bytes.size());
      to += source.bytes.size();
    }
    return {};
  }

  bool needsDouble = std::any_of(sources->begin(), sources->end(), [](const Source &source) {
    return !widensExactlyToFloat(source.tensor->type);
  });
  auto run = [&]<typename Elem, typename Wide>(Elem, Wide) {
    auto make = [&] { return RowWriter<Elem, Wide>(recipe, *sources, columns, out.data()); };
    inParallel(threads, make().units(), make);
  };
  auto runWide = [&]<typename Elem>(Elem elem) {
    needsDouble ? run(elem, double()) : run(elem, float());
  };
  if (recipe.storage == ScalarType::F64)
    runWide(double());
  else if (recipe.storage == ScalarType::F32)
    runWide(float());
  else
    runWide(uint16_t());
  return {};
}

Expected<WeightPlaces> planWeights(const Program &program) {
  WeightPlaces places;
  std::map<std::string, size_t> lastUse; // of a tensor: the last recipe
  for (size_t i = 0; i < program.weights.size(); ++i) {
    places.offsets.push_back(places.total);
    std::optional<uint64_t> aligned = alignedBytes(program.weights[i].bytes);
    std::optional<uint64_t> end = addBytes(places.total, aligned);
    if (!end)
      return internalError("weights: more than 63 bits of bytes");
    places.total = *end;
    for (const std::string &source : program.weights[i].sources)
      lastUse[source] = i;
  }
  places.finished.resize(program.weights.size());
  for (const auto &[source, last] : lastUse)
    places.finished[last].push_back(source);
  return places;
}

Status packWeights(const Program &program, const Checkpoint &checkpoint, int threads,
                   const WeightSink &sink, const PackProgress &progress) {
  if (threads <= 0)
    threads = int(std::max(1u, std::thread::hardware_concurrency()));
  Expected<WeightPlaces> places = planWeights(program);
  if (!places)
    return places.status();
  for (size_t i = 0; i < program.weights.size(); ++i) {
    uint64_t begin = places->offsets[i];
    uint64_t end = i + 1 < places->offsets.size() ? places->offsets[i + 1] : places->total;
    // What lies between it and the next is zero.
    Expected<PageMemory> memory = PageMemory::allocate(end - begin, program.weights[i].name);
    if (!memory)
      return memory.status();
    std::span<std::byte> out = memory->bytes().first(size_t(program.weights[i].bytes));
    if (Status status = packWeight(program.weights[i], checkpoint, threads, out); !status)
      return status;
    if (Status status = sink(begin, memory->bytes()); !status)
      return status;
    for (const std::string &source : places->finished[i])
      checkpoint.dropPages(checkpoint.tensors().at(source));
    if (progress)
      progress(end, places->total);
  }
  return {};
}

Expected<WeightArena> WeightArena::allocate(const Program &program) {
  Expected<WeightPlaces> places = planWeights(program);
  if (!places)
    return places.status();
  Expected<PageMemory> memory = PageMemory::allocate(places->total, "weights");
  if (!memory)
    return memory.status();
  WeightArena arena;
  arena.memory = std::move(*memory);
  arena.start = arena.memory.data();
  arena.places = std::move(*places);
  return arena;
}

Expected<WeightArena> WeightArena::pack(const Program &program, const Checkpoint &checkpoint,
                                        int threads, const PackProgress &progress) {
  if (threads <= 0)
    threads = int(std::max(1u, std::thread::hardware_concurrency()));
  Expected<WeightArena> allocated = allocate(program);
  if (!allocated)
    return allocated;
  WeightArena arena = std::move(*allocated);
  for (size_t i = 0; i < program.weights.size(); ++i) {
    const WeightRecipe &recipe = program.weights[i];
    std::span<std::byte> out(arena.memory.data() + arena.places.offsets[i], size_t(recipe.bytes));
    if (Status status = packWeight(recipe, checkpoint, threads, out); !status)
      return status;
    for (const std::string &source : arena.places.finished[i])
      checkpoint.dropPages(checkpoint.tensors().at(source));
    if (progress)
      progress(arena.places.offsets[i] + recipe.bytes, arena.places.total);
  }
  return arena;
}

/// Fills `out` with copies of a block of values: all 1, or within ±1/32.
template <typename Elem, typename Narrow>
static void fillMadeUp(std::span<std::byte> out, bool ones, Narrow narrow) {
  std::vector<Elem> block(8191); // odd: rows do not begin alike
  uint32_t state = 1;
  for (Elem &value : block) {
    state = state * 1664525u + 1013904223u;
    value = narrow(ones ? 1.0f : float(int32_t(state)) * 0x1p-36f);
  }
  size_t bytes = block.size() * sizeof(Elem);
  for (size_t at = 0; at < out.size(); at += bytes)
    std::memcpy(out.data() + at, block.data(), std::min(bytes, out.size() - at));
}

Expected<WeightArena> WeightArena::madeUp(const Program &program, const PackProgress &progress) {
  Expected<WeightArena> arena = allocate(program);
  if (!arena)
    return arena;
  for (size_t i = 0; i < program.weights.size(); ++i) {
    const WeightRecipe &recipe = program.weights[i];
    uint64_t offset = arena->places.offsets[i];
    std::span<std::byte> out(arena->memory.data() + offset, size_t(recipe.bytes));
    bool ones = recipe.shape.size() < 2;
    if (recipe.storage == ScalarType::F64)
      fillMadeUp<double>(out, ones, [](float value) { return double(value); });
    else if (recipe.storage == ScalarType::F32)
      fillMadeUp<float>(out, ones, [](float value) { return value; });
    else
      fillMadeUp<uint16_t>(out, ones, [](float value) { return f32ToBf16(value); });
    if (progress)
      progress(offset + recipe.bytes, arena->places.total);
  }
  return arena;
}

WeightArena WeightArena::mapped(MappedFile file, uint64_t payload, WeightPlaces places) {
  WeightArena arena;
  arena.file = std::move(file);
  arena.start = arena.file.bytes().data() + payload;
  arena.places = std::move(places);
  return arena;
}

} // namespace gemma
