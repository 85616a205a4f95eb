#include "tools/verify/Quantised.h"

#include "codegen/artifact/ElementType.h"
#include "dialect/gemma/Gemma.h"
#include "runtime/abi/ProgramSizes.h"
#include "runtime/support/BFloat16.h"
#include "runtime/weights/Packer.h"
#include "runtime/weights/Quantize.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/MLIRContext.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

using namespace mlir;
using gemma::reference::Tensor;

namespace gemma::verify {

/// Of a type that numerics may leave out.
static std::optional<ScalarType> typeOf(Type type) {
  return type ? codegen::scalarTypeOf(type) : std::nullopt;
}

Expected<compiler::CompileOptions> typeOptions(const Program &program) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::GemmaDialect>();
  // A diagnostic would go to stderr: the error below says all.
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  auto numerics = dyn_cast_or_null<ir::NumericsAttr>(parseAttribute(program.numerics, &context));
  if (!numerics)
    return badInput("the artifact's numerics: expected #gemma.numerics<...>, got " +
                    program.numerics);
  compiler::CompileOptions options;
  std::optional<ScalarType> weights = typeOf(numerics.getWeights()),
                            cache = typeOf(numerics.getKv());
  options.embeddingType = typeOf(numerics.getTableType());
  options.kvType = cache;
  if (weights && !isFloat(*weights))
    options.weightType = weights;
  // Where no matrix is of the dtype, caches alone could tell: it changes nothing else.
  options.dtype = ScalarType::BF16;
  for (std::optional<ScalarType> type : {cache, options.embeddingType, weights})
    if (type && isFloat(*type))
      options.dtype = type;
  options.codeType = typeOf(numerics.getCodes());
  return options;
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

static const WeightRecipe *recipeOf(std::span<const WeightRecipe> recipes, StringRef weight) {
  auto found = std::ranges::find(recipes, weight.str(), &WeightRecipe::name);
  return found == recipes.end() ? nullptr : &*found;
}

bool StoredWeights::isQuantised(const Program &program, StringRef weight) {
  const WeightRecipe *recipe = recipeOf(program.weights, weight);
  return recipe && gemma::isQuantized(recipe->storage);
}

/// Element [row, k] of a packed weight of `groups` groups a row, by the layout of Quantize.h.
static double element(const WeightRecipe &recipe, std::span<const std::byte> packed, size_t groups,
                      size_t row, size_t k) {
  size_t parts = size_t(recipe.interleave), partRows = size_t(recipe.shape[0]) / parts;
  size_t inPart = row % partRows, lane = inPart % panelLanes;
  size_t panel = inPart / panelLanes * parts + row / partRows;
  size_t group = panel * groups + k / groupColumns, quad = k % groupColumns / 4;
  const std::byte *codes = packed.data() + group * groupCodeBytes(recipe.storage);
  int code = 0;
  if (recipe.storage == ScalarType::I8) {
    code = int(codes[(quad * panelLanes + lane) * 4 + k % 4]) - 128;
  } else {
    int both = int(codes[(quad % 4 * panelLanes + lane) * 4 + k % 4]);
    code = (quad < 4 ? both & 15 : both >> 4) - 8;
  }
  uint16_t scale = 0;
  std::memcpy(&scale,
              packed.data() + scaleOffset(recipe).value_or(0) +
                  (group * panelLanes + lane) * sizeof scale,
              sizeof scale);
  return code * double(f16ToF32(scale));
}

/// A group's codes are at most this much of its largest magnitude M away: half a step of M / 127,
/// or, where the scale is searched, some 2.5 / 9.5, what one of M / -9.5 clips (its codes end at
/// 7).
static double mostError(ScalarType storage) {
  return storage == ScalarType::I8 ? 0.502 / 127 : 0.3;
}

Expected<Tensor> StoredWeights::weight(program::WeightOp weight) {
  Expected<Tensor> exact = plain.weight(weight);
  const WeightRecipe *recipe = recipeOf(recipes, weight.getSymName());
  if (!exact || !recipe || !gemma::isQuantized(recipe->storage))
    return exact;
  std::vector<std::byte> packed(size_t(recipe->bytes));
  CheckpointTensors tensors(checkpoint);
  if (Status status = packWeight(*recipe, tensors,
                                 int(std::max(1U, std::thread::hardware_concurrency())), packed);
      !status)
    return status.error();
  auto columns = size_t(recipe->shape[1]), groups = (columns + groupColumns - 1) / groupColumns;
  for (size_t row = 0; row < size_t(recipe->shape[0]); ++row)
    for (size_t first = 0; first < columns; first += groupColumns) {
      double largest = 0, worst = 0;
      for (size_t k = first; k < std::min(columns, first + groupColumns); ++k) {
        double &value = exact->data[row * columns + k];
        double stored = element(*recipe, packed, groups, row, k);
        largest = std::max(largest, std::fabs(value));
        worst = std::max(worst, std::fabs(value - stored));
        value = stored;
      }
      // Where half a code is below the smallest f16 the scale is off by more.
      if (worst > mostError(recipe->storage) * largest + 0x1p-25 * 128)
        return internalError("weight " + recipe->name + ", row " + std::to_string(row) +
                             ", columns from " + std::to_string(first) + ": codes are " +
                             std::to_string(worst) + " away from values within " +
                             std::to_string(largest));
    }
  return exact;
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

void roundToCodes(Tensor &x, ScalarType codes, size_t columns) {
  const float most = codes == ScalarType::I16 ? 32767.0F : 127.0F;
  auto width = size_t(x.width());
  for (size_t row = 0; row < x.data.size(); row += width)
    for (size_t first = 0; first < width; first += columns) {
      std::span<double> group(x.data.data() + row + first, std::min(columns, width - first));
      float largest = 0;
      for (double value : group)
        largest = std::max(largest, std::fabs(float(value)));
      if (largest < 0x1p-100F) {
        std::ranges::fill(group, 0.0);
        continue;
      }
      float scale = largest / most, inverse = most / largest;
      for (double &value : group)
        value = double(std::nearbyintf(float(value) * inverse)) * double(scale);
    }
}

void roundToCache(Tensor &x, ScalarType cache) {
  if (cache == ScalarType::I8)
    return roundToCodes(x, cache, size_t(x.width()));
  if (cache == ScalarType::BF16)
    for (double &value : x.data)
      value = bf16ToF32(f32ToBf16(float(value)));
}

} // namespace gemma::verify
