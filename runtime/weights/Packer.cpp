#include "runtime/weights/Packer.h"

#include "runtime/abi/ProgramSizes.h"
#include "runtime/checkpoint/Widen.h"
#include "runtime/support/BFloat16.h"
#include "runtime/support/Json.h"
#include "runtime/support/Memory.h"
#include "runtime/weights/Quantize.h"

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
  const std::string *name;
  const TensorInfo *tensor;
  int64_t firstRow;
};

/// A weight's sources, one after another.
struct Rows {
  const TensorSource &tensors;
  std::vector<Source> sources;
  int64_t columns = 1;

  const Source &of(int64_t row) const {
    auto source = std::upper_bound(sources.begin(), sources.end(), row,
                                   [](int64_t i, const Source &s) { return i < s.firstRow; });
    return *--source;
  }
  template <typename Wide> void read(int64_t row, std::span<Wide> out) const {
    const Source &source = of(row);
    tensors.read(*source.name, *source.tensor, uint64_t((row - source.firstRow) * columns), out);
  }
};

/// How a recipe cuts rows into units of work: panels, or blocks of 16 rows.
struct Units {
  explicit Units(const WeightRecipe &recipe)
      : parts(recipe.interleave), partRows(recipe.shape[0] / parts),
        panelRows(recipe.panel ? recipe.panel : 16) {}

  int64_t count() const { return parts * ((partRows + panelRows - 1) / panelRows); }
  int64_t firstRow(int64_t unit) const {
    return unit % parts * partRows + unit / parts * panelRows;
  }
  int64_t rows(int64_t unit) const {
    return std::min(panelRows, partRows - unit / parts * panelRows);
  }

  int64_t parts, partRows, panelRows;
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
  RowWriter(const WeightRecipe &recipe, const Rows &source, std::byte *out)
      : recipe(recipe), source(source), units(recipe), columns(source.columns),
        out(reinterpret_cast<Elem *>(out)), row(size_t(columns)) {}

  void run(int64_t unit) {
    int64_t begin = units.firstRow(unit);
    for (int64_t r = 0; r < units.rows(unit); ++r) {
      source.read(begin + r, std::span<Wide>(row));
      if (recipe.panel == 0)
        writeRow(begin + r);
      else if (recipe.panel == 8)
        writeTileRow(unit, r);
      else
        writePanelRow(unit, r);
    }
  }

private:
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
      store(row[size_t(k)],
            out[((k / 64 * units.count() + panel) * 8 + r) * 64 + chunk * 8 + k % 8]);
    }
  }

  const WeightRecipe &recipe;
  const Rows &source;
  Units units;
  int64_t columns;
  Elem *out;
  std::vector<Wide> row;
};

/// Quantises the panels of a weight. The first one with a value that has no code goes to `refused`.
class QuantizedWriter {
public:
  QuantizedWriter(const WeightRecipe &recipe, const Rows &source, std::span<std::byte> out,
                  std::atomic<int64_t> &refused)
      : source(source), units(recipe), storage(recipe.storage),
        groups((source.columns + scaleGroup - 1) / scaleGroup), codes(out.data()),
        scales(reinterpret_cast<uint16_t *>(out.data() + scaleOffset(recipe).value_or(0))),
        refused(refused), panel(size_t(groups * scaleGroup) * panelLanes) {}

  void run(int64_t unit) {
    // What lies beyond the last row or column stays zero.
    size_t stride = size_t(groups * scaleGroup), rows = size_t(units.rows(unit));
    for (size_t r = 0; r < rows; ++r)
      source.read(units.firstRow(unit) + int64_t(r),
                  std::span(panel).subspan(r * stride, size_t(source.columns)));
    std::fill(panel.begin() + int64_t(rows * stride), panel.end(), 0.0F);
    uint32_t worst = 0;
    for (size_t g = 0; g < size_t(groups); ++g) {
      for (size_t r = 0; r < panelLanes; ++r)
        for (size_t k = 0; k < groupColumns; ++k)
          group[k][r] = panel[r * stride + g * groupColumns + k];
      size_t place = size_t(unit * groups) + g;
      worst = std::max(worst, quantizeGroup(storage, group, codes + place * groupCodeBytes(storage),
                                            scales + place * panelLanes));
    }
    if (worst > std::bit_cast<uint32_t>(quantizedLimit(storage)))
      for (int64_t seen = refused; unit < seen && !refused.compare_exchange_weak(seen, unit);) {
      }
  }

private:
  const Rows &source;
  Units units;
  ScalarType storage;
  int64_t groups;
  std::byte *codes;
  uint16_t *scales;
  std::atomic<int64_t> &refused;
  std::vector<float> panel; ///< [16][columns, padded to whole groups]
  GroupValues group;
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

/// The rows of a weight, which must be as many and as long as it says.
static Expected<Rows> findRows(const WeightRecipe &recipe, const TensorSource &tensors) {
  Rows out{tensors, {}, recipe.shape.size() == 2 ? recipe.shape[1] : 1};
  int64_t rows = 0;
  std::vector<int64_t> inner(recipe.shape.begin() + 1, recipe.shape.end());
  for (const std::string &name : recipe.sources) {
    auto found = tensors.tensors().find(name);
    if (found == tensors.tensors().end())
      return badInput(tensors.title() + ": no tensor " + quoteForMessage(name) + ", which weight " +
                      quoteForMessage(recipe.name) + " is made of");
    const TensorInfo &tensor = found->second;
    if (tensor.shape.empty() ||
        !std::equal(tensor.shape.begin() + 1, tensor.shape.end(), inner.begin(), inner.end()))
      return badInput(tensors.title() + ": tensor " + quoteForMessage(name) +
                      " does not have the shape that weight " + quoteForMessage(recipe.name) +
                      " wants");
    out.sources.push_back({&name, &tensor, rows});
    rows += tensor.shape[0];
  }
  if (rows != recipe.shape[0])
    return badInput(tensors.title() + ": the tensors of weight " + quoteForMessage(recipe.name) +
                    " have " + std::to_string(rows) + " rows, expected " +
                    std::to_string(recipe.shape[0]));
  return out;
}

/// Says which of a unit's elements cannot be quantised.
static Status refuseValue(const WeightRecipe &recipe, const Rows &source, int64_t unit) {
  Units units(recipe);
  std::vector<float> row(size_t(source.columns));
  float limit = quantizedLimit(recipe.storage);
  for (int64_t r = units.firstRow(unit); r < units.firstRow(unit) + units.rows(unit); ++r) {
    source.read(r, std::span(row));
    for (size_t k = 0; k < row.size(); ++k)
      if (!(std::abs(row[k]) <= limit)) {
        const Source &from = source.of(r);
        return badInput(source.tensors.title() + ": tensor " + quoteForMessage(*from.name) +
                        ": row " + std::to_string(r - from.firstRow) + ", column " +
                        std::to_string(k) + ": expected a value within +-" +
                        std::to_string(int64_t(limit)) + ", which " +
                        std::string(name(recipe.storage)) + " with f16 scales reaches, got " +
                        std::to_string(row[k]));
      }
  }
  return internalError("weight " + recipe.name + ": no value that could not be quantised");
}

Status packWeight(const WeightRecipe &recipe, const TensorSource &tensors, int threads,
                  std::span<std::byte> out) {
  std::optional<uint64_t> bytes = packedBytes(recipe);
  if (!bytes || *bytes != out.size())
    return internalError("weight " + recipe.name + ": a recipe that the packer does not know");
  Expected<Rows> source = findRows(recipe, tensors);
  if (!source)
    return source.status();
  int64_t units = Units(recipe).count();

  if (isQuantized(recipe.storage)) {
    std::atomic<int64_t> refused{units};
    inParallel(threads, units, [&] { return QuantizedWriter(recipe, *source, out, refused); });
    return refused == units ? Status() : refuseValue(recipe, *source, refused);
  }

  auto storedAsIs = [&](const Source &s) {
    return s.tensor->type == recipe.storage && !tensors.stored(*s.tensor).empty();
  };
  if (recipe.panel == 0 && std::ranges::all_of(source->sources, storedAsIs)) {
    std::byte *to = out.data();
    for (const Source &one : source->sources) {
      std::span<const std::byte> stored = tensors.stored(*one.tensor);
      std::memcpy(to, stored.data(), stored.size());
      to += stored.size();
    }
    return {};
  }

  bool needsDouble = std::ranges::any_of(
      source->sources, [](const Source &one) { return !widensExactlyToFloat(one.tensor->type); });
  auto run = [&]<typename Elem, typename Wide>(Elem, Wide) {
    inParallel(threads, units, [&] { return RowWriter<Elem, Wide>(recipe, *source, out.data()); });
  };
  auto runWide = [&]<typename Elem>(Elem elem) {
    if (needsDouble)
      return run(elem, double());
    run(elem, float());
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

Status packWeights(const Program &program, const TensorSource &tensors, int threads,
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
    if (Status status = packWeight(program.weights[i], tensors, threads, out); !status)
      return status;
    if (Status status = sink(begin, memory->bytes()); !status)
      return status;
    for (const std::string &source : places->finished[i])
      tensors.release(source);
    if (progress)
      progress(end, places->total);
  }
  return {};
}

} // namespace gemma
