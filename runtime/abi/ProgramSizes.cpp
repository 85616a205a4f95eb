#include "runtime/abi/ProgramSizes.h"

#include "runtime/abi/KernelAbi.h"

#include <algorithm>

namespace gemma {

static constexpr uint64_t maxBytes = uint64_t(INT64_MAX);

std::optional<uint64_t> mulBytes(std::optional<uint64_t> a, uint64_t b) {
  uint64_t result = 0;
  if (!a || __builtin_mul_overflow(*a, b, &result) || result > maxBytes)
    return std::nullopt;
  return result;
}

std::optional<uint64_t> addBytes(std::optional<uint64_t> a, std::optional<uint64_t> b) {
  uint64_t result = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &result) || result > maxBytes)
    return std::nullopt;
  return result;
}

std::optional<uint64_t> alignedBytes(uint64_t bytes) {
  std::optional<uint64_t> padded = addBytes(bytes, objectAlignment - 1);
  if (!padded)
    return std::nullopt;
  return *padded / objectAlignment * objectAlignment;
}

static uint64_t ceilDiv(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

/// Groups of a quantised weight in all its panels' rows, 16 scales each; nothing if its layout is
/// none that the packer executes.
static std::optional<uint64_t> quantizedGroups(const WeightRecipe &recipe) {
  if (!isQuantized(recipe.storage) || recipe.shape.size() != 2 || recipe.panel != 16 ||
      recipe.kpack != 4 || recipe.group != scaleGroup || recipe.interleave < 1 ||
      recipe.interleave > 2 || recipe.shape[0] <= 0 || recipe.shape[1] <= 0 ||
      recipe.shape[0] % recipe.interleave != 0)
    return std::nullopt;
  uint64_t parts = uint64_t(recipe.interleave);
  uint64_t panels = parts * ceilDiv(uint64_t(recipe.shape[0]) / parts, 16);
  return mulBytes(panels, ceilDiv(uint64_t(recipe.shape[1]), uint64_t(scaleGroup)));
}

std::optional<uint64_t> scaleOffset(const WeightRecipe &recipe) {
  // 512 or 256 bytes a panel and group: always a multiple of 64.
  return mulBytes(quantizedGroups(recipe), recipe.storage == ScalarType::I8 ? 512U : 256U);
}

std::optional<uint64_t> packedBytes(const WeightRecipe &recipe) {
  if (isQuantized(recipe.storage))
    return addBytes(scaleOffset(recipe), mulBytes(quantizedGroups(recipe), 32));
  if (recipe.shape.empty() || recipe.shape.size() > 2)
    return std::nullopt;
  for (int64_t size : recipe.shape)
    if (size <= 0)
      return std::nullopt;
  if (recipe.storage != ScalarType::F64 && recipe.storage != ScalarType::F32 &&
      recipe.storage != ScalarType::BF16)
    return std::nullopt;
  if (recipe.group != 0)
    return std::nullopt;
  uint64_t width = byteWidth(recipe.storage);
  uint64_t rows = uint64_t(recipe.shape[0]);
  uint64_t columns = recipe.shape.size() == 2 ? uint64_t(recipe.shape[1]) : 1;
  if (recipe.panel == 0) {
    if (recipe.kpack != 1 || recipe.interleave != 1)
      return std::nullopt;
    return mulBytes(mulBytes(rows, columns), width);
  }
  bool known = recipe.panel == 8    ? recipe.kpack == 64
               : recipe.panel == 16 ? recipe.kpack == 1 || recipe.kpack == 2
                                    : false;
  if (!known || recipe.shape.size() != 2 || recipe.interleave < 1 || recipe.interleave > 2 ||
      rows % uint64_t(recipe.interleave) != 0)
    return std::nullopt;
  uint64_t parts = uint64_t(recipe.interleave), kpack = uint64_t(recipe.kpack);
  uint64_t panel = uint64_t(recipe.panel), panels = parts * ceilDiv(rows / parts, panel);
  return mulBytes(mulBytes(mulBytes(panels, panel * width), ceilDiv(columns, kpack)), kpack);
}

size_t cacheLaneFromName(std::string_view name) {
  return size_t(std::ranges::find(cacheLaneNames, name) - std::begin(cacheLaneNames));
}

/// k_scales and v_scales.
bool isScaleLane(size_t lane) { return lane >= 2; }

bool hasLane(const CachePlan &cache, size_t lane) {
  return lane < cacheLaneCount && (cache.keys || lane % 2 != 0) &&
         (cache.elem == ScalarType::I8 || !isScaleLane(lane));
}

std::optional<uint64_t> lanePageBytes(const CachePlan &cache, size_t lane) {
  if (cache.heads <= 0 || cache.dim <= 0 || cache.page <= 0)
    return std::nullopt;
  std::optional<uint64_t> bytes = isScaleLane(lane)
                                      ? byteWidth(ScalarType::F32)
                                      : mulBytes(byteWidth(cache.elem), uint64_t(cache.dim));
  return mulBytes(mulBytes(bytes, uint64_t(cache.heads)), uint64_t(cache.page));
}

std::optional<uint64_t> positionBytes(const CachePlan &cache) {
  std::optional<uint64_t> bytes = 0;
  for (size_t lane = 0; lane < cacheLaneCount; ++lane)
    if (hasLane(cache, lane))
      bytes = addBytes(bytes, lanePageBytes(cache, lane));
  return bytes ? std::optional(*bytes / uint64_t(cache.page)) : std::nullopt;
}

std::optional<uint64_t> tableLaneBytes(const TablePlan &table) {
  if (table.active <= 0)
    return std::nullopt;
  return mulBytes(mulBytes(512 * byteWidth(table.elem), uint64_t(table.active)), 1);
}

int64_t largestRows(char extent, const ProgramLimits &limits) {
  switch (extent) {
  case 'T':
    return limits.maxChunk;
  case 'B':
    return limits.maxBatch;
  case 'R':
    return limits.maxLogitRows;
  default:
    return 1;
  }
}

std::optional<uint64_t> rowElements(const LaunchArgument &buffer) {
  std::optional<uint64_t> elements = 1;
  for (int64_t size : buffer.shape)
    elements = size > 0 ? mulBytes(elements, uint64_t(size)) : std::nullopt;
  return elements;
}

std::optional<uint64_t> rowsBytes(const LaunchArgument &buffer, const ProgramLimits &limits) {
  int64_t rows = largestRows(buffer.extent, limits);
  std::optional<uint64_t> elements = rowElements(buffer);
  if (rows < 0 || !elements || buffer.stride < 0 || *elements > uint64_t(buffer.stride))
    return std::nullopt;
  if (rows == 0)
    return 0;
  return mulBytes(addBytes(mulBytes(uint64_t(rows - 1), uint64_t(buffer.stride)), elements),
                  byteWidth(buffer.type));
}

std::optional<uint64_t> outputBytes(const OutputPlan &output, const ProgramLimits &limits) {
  int64_t rows = largestRows(output.extent, limits);
  if (rows < 0)
    return std::nullopt;
  std::optional<uint64_t> bytes = mulBytes(uint64_t(rows), byteWidth(output.type));
  for (int64_t size : output.shape) {
    if (size <= 0)
      return std::nullopt;
    bytes = mulBytes(bytes, uint64_t(size));
  }
  return bytes;
}

uint64_t ticketBytes(const Program &program) {
  uint64_t bytes = 0;
  for (const Variant &variant : program.variants)
    for (const Launch &launch : variant.launches)
      for (const LaunchArgument &argument : launch.arguments)
        if (argument.kind == LaunchArgument::Kind::Tickets)
          bytes = std::max(bytes, argument.bytes);
  return bytes;
}

static constexpr std::string_view inputNames[stepInputCount] = {
    "tokens",   "positions", "ring_pages", "pages",      "row_starts",
    "seq_lens", "slots",     "page_table", "logit_rows", "sizes"};

std::optional<StepInput> stepInputFromName(std::string_view name) {
  for (size_t i = 0; i < stepInputCount; ++i)
    if (inputNames[i] == name && StepInput(i) != StepInput::Sizes)
      return StepInput(i);
  return std::nullopt;
}

std::string_view stepInputName(StepInput input) { return inputNames[size_t(input)]; }

int64_t stepInputEntries(StepInput input, const Program &program) {
  const ProgramLimits &limits = program.limits;
  switch (input) {
  case StepInput::Tokens:
  case StepInput::Positions:
  case StepInput::RingPages:
  case StepInput::Pages:
    return limits.maxChunk;
  case StepInput::RowStarts:
    return limits.maxBatch + 1;
  case StepInput::SeqLens:
  case StepInput::Slots:
    return limits.maxBatch;
  case StepInput::PageTable:
    return limits.maxBatch * program.pagesPerSequence();
  case StepInput::LogitRows:
    return limits.maxLogitRows;
  case StepInput::Sizes:
    return sizeof(GemmaSizes) / 4;
  }
  return 0;
}

} // namespace gemma
