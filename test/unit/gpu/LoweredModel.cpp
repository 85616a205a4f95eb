#include "test/unit/gpu/LoweredModel.h"

#include "import/Import.h"
#include "passes/Pipelines.h"

#include "mlir/IR/IntegerSet.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/xxhash.h"

#include <cstring>
#include <numeric>

using namespace mlir;

namespace gemma::test {

//===--- the model ---===//

LoweredModel::LoweredModel(const ModelConfig &config, Limits limits, bool sharedKeys,
                           bool deterministic) {
  DialectRegistry registry;
  registerImportDialects(registry);
  registry.insert<kernel::KernelDialect>();
  codegen::registerGpuCodegenDialects(registry);
  context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  ImportOptions import;
  import.narrowActivations = true;
  import.top = 1;
  lowered = importModel(*context, config, import);
  passes::PhaseOptions options;
  options.family = "cuda";
  options.kvSharing = sharedKeys;
  options.deterministic = deterministic;
  options.maxContext = limits.context;
  options.maxBatch = limits.batch;
  options.maxChunk = limits.chunk;
  PassManager pm(context.get());
  passes::buildImportPhase(pm, options);
  passes::buildOptimizePhase(pm, options);
  passes::buildLowerPhase(pm, options);
  if (!lowered || failed(pm.run(*lowered))) {
    ADD_FAILURE() << "the model cannot be lowered";
    lowered = ModuleOp::create(UnknownLoc::get(context.get()));
  }
  for (program::CacheOp cache : lowered->getOps<program::CacheOp>())
    ring = std::max(ring, static_cast<int64_t>(cache.getRingPages().value_or(0)));
}

void LoweredModel::shareAmong(int64_t blocks) {
  lowered->walk([&](kernel::ContractOp op) {
    kernel::MmaAttr tile = *op.getGpuTile();
    if (tile.getSegments() <= blocks)
      return;
    op.setGpuTileAttr(kernel::MmaAttr::get(op.getContext(), tile.getRows(), tile.getTokens(),
                                           tile.getK(), tile.getStages(), blocks,
                                           tile.getRaster()));
    auto sums = cast<MemRefType>(op.getPartials().getType());
    op.getPartials().setType(
        MemRefType::get({2 * blocks, sums.getDimSize(1)}, sums.getElementType()));
    auto function = op->getParentOfType<kernel::FuncOp>();
    function.setGrid(AffineMap::get(0, 5, getAffineConstantExpr(blocks, op.getContext())));
    function.setFunctionType(FunctionType::get(
        op.getContext(), function.getFunctionBody().front().getArgumentTypes(), {}));
  });
}

program::VariantOp LoweredModel::variantFor(const GemmaSizes &sizes) {
  std::array<int64_t, 5> symbols = {sizes.tokens, sizes.sequences, sizes.longestRun,
                                    sizes.longestSeq, sizes.logitRows};
  for (program::VariantOp variant : lowered->getOps<program::VariantOp>()) {
    IntegerSet condition = variant.getCondition();
    bool holds = true;
    for (auto [i, expr] : llvm::enumerate(condition.getConstraints())) {
      int64_t value = evaluateExpr(expr, {}, symbols);
      holds &= condition.isEq(static_cast<unsigned>(i)) ? value == 0 : value >= 0;
    }
    if (holds)
      return variant;
  }
  return nullptr;
}

GpuKernel &LoweredModel::compiled(kernel::FuncOp kernel) {
  std::unique_ptr<GpuKernel> &made = kernels[kernel.getSymName().str()];
  if (!made)
    made = std::make_unique<GpuKernel>(kernel);
  return *made;
}

//===--- the memory of a step ---===//

GemmaSizes sizesOf(const Runs &runs) {
  auto count = static_cast<int64_t>(runs.size());
  GemmaSizes sizes = {0, count, 0, 0, count};
  for (Run run : runs) {
    sizes.tokens += run.fresh;
    sizes.longestRun = std::max(sizes.longestRun, run.fresh);
    sizes.longestSeq = std::max(sizes.longestSeq, run.length);
  }
  return sizes;
}

LoweredStep::LoweredStep(LoweredModel &model, const Runs &runs, uint32_t seed, uint8_t poison)
    : model(model), runs(runs), seed(seed), poison(poison) {
  sizes = sizesOf(runs);
  for (Run run : runs) {
    slots.insert(slots.begin(), static_cast<int32_t>(slots.size()));
    pagesInAll += llvm::divideCeil(run.length, 16) + 1;
  }
  // The sequences' pages lie among each other, in no order, with others between them.
  std::vector<int32_t> order(static_cast<size_t>(pagesInAll));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed + 1));
  for (Run run : runs) {
    auto own = static_cast<ptrdiff_t>(llvm::divideCeil(run.length, 16));
    pages.emplace_back(order.end() - own, order.end());
    order.resize(order.size() - static_cast<size_t>(own));
  }

  program::VariantOp chosen = model.variantFor(sizes);
  if (!chosen) {
    ADD_FAILURE() << "no variant";
    return;
  }
  variant = chosen.getSymName().str();
  llvm::DenseMap<Value, Memory> values;
  for (Operation &op : chosen.getBody().front()) {
    if (auto buffer = dyn_cast<program::BufferOp>(op)) {
      std::optional<StringRef> extent = buffer.getExtent();
      int64_t rows = extent ? extentOf(*extent) : 0;
      values[buffer.getMemory()] =
          allocate(cast<MemRefType>(buffer.getMemory().getType()), rows, "buffer", false);
      values[buffer.getMemory()].workspace = buffer.getWorkspace();
    } else if (auto tickets = dyn_cast<program::TicketsOp>(op)) {
      Memory counters = allocate(cast<MemRefType>(tickets.getMemory().getType()), 0, "tickets",
                                 /*readOnly=*/false);
      std::memset(counters.data, 0, counters.elements * sizeof(int32_t));
      memory.memory.wrote(counters.data, counters.elements * sizeof(int32_t));
      values[tickets.getMemory()] = counters;
    } else if (auto output = dyn_cast<program::OutputOp>(op)) {
      values[output.getMemory()] = allocate(cast<MemRefType>(output.getMemory().getType()),
                                            sizes.logitRows, output.getName().str(), false);
    } else if (auto part = dyn_cast<program::ViewOp>(op)) {
      Memory source = values.lookup(part.getSource());
      auto skipped = static_cast<size_t>(part.getOffset());
      size_t width = cast<MemRefType>(part.getMemory().getType()).getElementTypeBitWidth() / 8;
      values[part.getMemory()] = {source.data + skipped * width, source.elements - skipped,
                                  source.workspace};
    } else if (auto given = dyn_cast<program::InputOp>(op)) {
      values[given.getMemory()] = input(given);
    } else if (auto ref = dyn_cast<program::RefOp>(op)) {
      values[ref.getMemory()] = reference(ref);
    } else if (auto launch = dyn_cast<program::LaunchOp>(op)) {
      Launch &made = launches.emplace_back();
      made.kernel = model.kernel(launch.getKernel());
      for (Value argument : launch.getArguments()) {
        made.arguments.push_back(values.lookup(argument).data);
        made.elements.push_back(values.lookup(argument).elements);
        made.workspace.push_back(values.lookup(argument).workspace);
      }
    } else {
      ADD_FAILURE() << "unexpected " << op.getName().getStringRef().str();
    }
  }
}

int64_t LoweredStep::extentOf(StringRef name) const {
  return name == "T" ? sizes.tokens : name == "B" ? sizes.sequences : sizes.logitRows;
}

LoweredStep::Memory LoweredStep::allocate(MemRefType type, int64_t rows, const std::string &name,
                                          bool readOnly) {
  size_t elements = 1;
  for (int64_t dim : type.getShape())
    elements *= static_cast<size_t>(ShapedType::isDynamic(dim) ? rows : dim);
  size_t bytes = elements * type.getElementTypeBitWidth() / 8;
  auto *data = memory.allocate<std::byte>(bytes, name, readOnly);
  std::memset(data, poison, bytes);
  if (!readOnly)
    memory.memory.track(data);
  return {data, elements};
}

template <typename T> static void fill(std::byte *to, const std::vector<T> &values) {
  std::memcpy(to, values.data(), values.size() * sizeof(T));
}

LoweredStep::Memory LoweredStep::input(program::InputOp op) {
  Memory &made = named[op.getName().str()];
  if (made.data)
    return made;
  std::vector<int32_t> values;
  auto type = cast<MemRefType>(op.getMemory().getType());
  StringRef name = op.getName();
  std::mt19937 random(seed + 2);
  int32_t token = 0;
  for (size_t b = 0; b < runs.size(); ++b) {
    auto firstToken = token;
    token += static_cast<int32_t>(runs[b].fresh);
    if (name == "row_starts")
      values.push_back(firstToken);
    else if (name == "seq_lens")
      values.push_back(static_cast<int32_t>(runs[b].length));
    else if (name == "slots")
      values.push_back(slots[b]);
    else if (name == "logit_rows")
      values.push_back(token - 1);
    else if (name == "page_table") {
      values.insert(values.end(), pages[b].begin(), pages[b].end());
      values.resize((b + 1) * static_cast<size_t>(type.getDimSize(1)), -1);
    } else
      for (int64_t position = runs[b].length - runs[b].fresh; position < runs[b].length;
           ++position) {
        int64_t page = position / 16, ring = std::max<int64_t>(model.ringPages(), 1);
        if (name == "tokens")
          values.push_back(static_cast<int32_t>(random() % 64));
        else if (name == "positions")
          values.push_back(static_cast<int32_t>(position));
        else if (name == "ring_pages")
          values.push_back(static_cast<int32_t>(slots[b] * ring + page % ring));
        else if (name == "pages")
          values.push_back(pages[b][static_cast<size_t>(page)]);
        else
          ADD_FAILURE() << "unknown input " << name.str();
      }
  }
  if (name == "row_starts")
    values.push_back(token);
  int64_t rows = type.getRank() == 2 ? sizes.sequences : static_cast<int64_t>(values.size());
  made = allocate(type, rows, name.str(), true);
  fill(made.data, values);
  return made;
}

LoweredStep::Memory LoweredStep::reference(program::RefOp op) {
  std::string key = op.getSymbol().str() + "." + op.getLane().value_or("").str();
  Memory &made = named[key];
  if (made.data)
    return made;
  Operation *symbol = model.module().lookupSymbol(op.getSymbol());
  auto type = cast<MemRefType>(op.getMemory().getType());
  if (auto cache = dyn_cast<program::CacheOp>(symbol)) {
    made = allocate(type, cachePages(cache), key, false);
    fillCache(made, cache, op.getLane() == "k");
  } else {
    made = allocate(type, 0, key, true);
    if (auto weight = dyn_cast<program::WeightOp>(symbol))
      fillWeight(made, weight);
    else
      fillTable(made);
  }
  return made;
}

void LoweredStep::fillWeight(Memory to, program::WeightOp weight) {
  auto logical = cast<RankedTensorType>(weight.getType());
  auto packed = cast<MemRefType>(weight.getPackedAttr().getValue());
  // Rows and columns of about the same norm as their inputs; norms about 1.
  bool isMatrix = logical.getRank() == 2;
  float scale = isMatrix ? 1.7f / std::sqrt(float(logical.getDimSize(1))) : 0.3f;
  auto salt = static_cast<uint32_t>(llvm::xxh3_64bits(weight.getSymName()));
  std::vector<float> values = randomValues(to.elements, seed + salt, scale);
  if (!isMatrix)
    for (float &value : values)
      value += 1;
  if (isMatrix && packed.getRank() == 4) { // zero beyond the rows and columns that there are
    int64_t rows = logical.getDimSize(0), columns = logical.getDimSize(1);
    int64_t groups = packed.getDimSize(1);
    for (size_t i = 0; i < values.size(); ++i) {
      auto at = static_cast<int64_t>(i);
      int64_t r = at / 64 % 8, row = at / 512 % groups * 8 + r;
      int64_t column = at / 512 / groups * 64 + (at % 64 ^ 8 * r);
      if (row >= rows || column >= columns)
        values[i] = 0;
    }
  }
  if (packed.getElementType().isBF16())
    fill(to.data, toBf16(values));
  else
    fill(to.data, values);
}

void LoweredStep::fillTable(Memory to) { fill(to.data, randomValues(to.elements, seed + 3)); }

int64_t LoweredStep::cachePages(program::CacheOp cache) const {
  std::optional<uint64_t> ringPages = cache.getRingPages();
  return ringPages ? static_cast<int64_t>(*ringPages) * sizes.sequences : pagesInAll;
}

int64_t LoweredStep::physicalPage(program::CacheOp cache, size_t sequence, int64_t page) const {
  if (auto ring = cache.getRingPages())
    return slots[sequence] * static_cast<int64_t>(*ring) + page % static_cast<int64_t>(*ring);
  return pages[sequence][static_cast<size_t>(page)];
}

/// Positions before the step that one of its tokens sees.
void LoweredStep::fillCache(Memory to, program::CacheOp cache, bool isKeys) {
  auto heads = static_cast<int64_t>(cache.getHeads()), dim = static_cast<int64_t>(cache.getDim());
  auto window = static_cast<int64_t>(cache.getWindow());
  std::mt19937 random(seed + (isKeys ? 4 : 5));
  std::uniform_real_distribution<float> uniform(-1, 1);
  emu::WrittenBytes &alive = *memory.memory.find(reinterpret_cast<uint64_t>(to.data))->written;
  for (size_t b = 0; b < runs.size(); ++b) {
    int64_t next = runs[b].length - runs[b].fresh;
    for (int64_t p = window ? std::max<int64_t>(next - window + 1, 0) : 0; p < next; ++p)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t d = 0; d < dim; ++d) {
          int64_t row = physicalPage(cache, b, p / 16) * heads + h;
          int64_t at = isKeys ? (row * dim + d) * 16 + p % 16 : (row * 16 + p % 16) * dim + d;
          uint16_t bits = f32ToBf16(uniform(random));
          std::memcpy(to.data + 2 * at, &bits, 2);
          alive.mark(reinterpret_cast<uint64_t>(to.data + 2 * at), 2);
        }
  }
}

//===--- running ---===//

std::vector<ReferenceArgument> LoweredStep::referenceArguments(const Launch &launch) const {
  std::vector<ReferenceArgument> result;
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    auto *data = static_cast<const std::byte *>(launch.arguments[i]);
    result.push_back({writes(launch, i) ? launch.before[i].data() : data, data, launch.elements[i],
                      launch.workspace[i]});
  }
  return result;
}

static uint32_t blocksOf(kernel::FuncOp kernel, const GemmaSizes &sizes) {
  std::array<int64_t, 5> symbols = {sizes.tokens, sizes.sequences, sizes.longestRun,
                                    sizes.longestSeq, sizes.logitRows};
  return static_cast<uint32_t>(evaluateExpr(kernel.getGrid().getResult(0), {}, symbols));
}

static std::vector<std::byte> bytesOf(const LoweredStep::Launch &launch, size_t argument) {
  kernel::FuncOp function = launch.kernel;
  auto type = cast<MemRefType>(function.getArgumentTypes()[argument]);
  auto *data = static_cast<const std::byte *>(launch.arguments[argument]);
  return {data, data + launch.elements[argument] * type.getElementTypeBitWidth() / 8};
}

void LoweredStep::run(const emu::LaunchOptions &options, bool check) {
  for (Launch &launch : launches) {
    std::string what = "kernel " + launch.kernel.getSymName().str() + " of " + variant;
    launch.before.resize(launch.arguments.size());
    launch.after.resize(launch.arguments.size());
    for (size_t i = 0; i < launch.arguments.size(); ++i)
      if (writes(launch, i))
        launch.before[i] = bytesOf(launch, i);
    // A block too many must do nothing.
    auto report =
        model.compiled(launch.kernel)
            .attempt(memory, launch.arguments, sizes, blocksOf(launch.kernel, sizes) + 1, options);
    if (!report.ok() || !report->completed || !report->findings.empty()) {
      ADD_FAILURE() << what << ": " << (report.ok() ? report->messages() : report.error().message);
      return;
    }
    for (size_t i = 0; i < launch.arguments.size(); ++i)
      if (writes(launch, i))
        launch.after[i] = bytesOf(launch, i);
    if (!check)
      continue;
    std::vector<ReferenceArgument> arguments = referenceArguments(launch);
    KernelReference reference(launch.kernel, arguments, sizes);
    std::string problem = reference.compare();
    if (!problem.empty()) {
      ADD_FAILURE() << what << ": " << problem;
      return;
    }
    worst = std::max(worst, reference.worst());
    std::vector<std::vector<bool>> &places = written.emplace_back();
    for (size_t i = 0; i < arguments.size(); ++i) {
      places.emplace_back(writes(launch, i) ? arguments[i].elements : 0);
      for (size_t e = 0; e < places.back().size(); ++e)
        places.back()[e] = reference.writes(i, e);
    }
  }
}

std::string LoweredStep::attempt(size_t index, const GpuKernel &kernel,
                                 const emu::LaunchOptions &options) {
  const Launch &launch = launches[index];
  auto set = [&](const std::vector<std::vector<std::byte>> &state) {
    for (size_t i = 0; i < launch.arguments.size(); ++i)
      if (writes(launch, i))
        std::memcpy(launch.arguments[i], state[i].data(), state[i].size());
  };
  set(launch.before);
  auto report =
      kernel.attempt(memory, launch.arguments, sizes, blocksOf(launch.kernel, sizes) + 1, options);
  std::string problem;
  if (!report.ok())
    problem = report.error().message;
  else if (!report->completed || !report->findings.empty())
    problem = report->messages();
  else
    problem = KernelReference(launch.kernel, referenceArguments(launch), sizes).compare();
  set(launch.after);
  return problem;
}

std::vector<std::byte> LoweredStep::results(const Places &places) const {
  std::vector<std::byte> bytes;
  for (size_t l = 0; l < launches.size() && l < places.size(); ++l)
    for (size_t i = 0; i < places[l].size(); ++i) {
      if (places[l][i].empty())
        continue;
      size_t width = launches[l].after[i].size() / places[l][i].size();
      for (size_t e = 0; e < places[l][i].size(); ++e)
        if (places[l][i][e])
          bytes.insert(bytes.end(), launches[l].after[i].begin() + ptrdiff_t(e * width),
                       launches[l].after[i].begin() + ptrdiff_t((e + 1) * width));
    }
  return bytes;
}

} // namespace gemma::test
