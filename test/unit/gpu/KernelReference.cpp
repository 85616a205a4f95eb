#include "test/unit/gpu/KernelReference.h"

#include "test/unit/gpu/BoundedMath.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

using namespace mlir;

namespace gemma::test {

int64_t evaluateExpr(AffineExpr expr, ArrayRef<int64_t> dims, ArrayRef<int64_t> symbols) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue();
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return dims[dim.getPosition()];
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return symbols[symbol.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expr);
  int64_t a = evaluateExpr(binary.getLHS(), dims, symbols);
  int64_t b = evaluateExpr(binary.getRHS(), dims, symbols);
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return a + b;
  case AffineExprKind::Mul:
    return a * b;
  case AffineExprKind::FloorDiv:
    return llvm::divideFloorSigned(a, b);
  case AffineExprKind::CeilDiv:
    return llvm::divideCeilSigned(a, b);
  default:
    return a - b * llvm::divideFloorSigned(a, b);
  }
}

KernelReference::KernelReference(kernel::FuncOp kernel, std::span<const ReferenceArgument> memory,
                                 const GemmaSizes &given)
    : kernel(kernel),
      sizes{given.tokens, given.sequences, given.longestRun, given.longestSeq, given.logitRows} {
  arguments.reserve(memory.size());
  for (auto [i, argument] : llvm::enumerate(kernel.getBody().getArguments())) {
    View &view = arguments.emplace_back(viewOf(cast<MemRefType>(argument.getType())));
    view.memory = memory[i];
    view.name = "argument " + std::to_string(i);
    if (kernel.getAccess(static_cast<unsigned>(i)) != kernel::Access::Read)
      view.written.assign(view.memory.elements, false);
    views[argument] = &view;
  }
}

KernelReference::View KernelReference::viewOf(MemRefType type) {
  View view;
  view.type = type;
  int64_t start = 0;
  if (failed(type.getStridesAndOffset(view.strides, start)))
    wrong("a memref without strides");
  return view;
}

static int64_t splitsOf(kernel::AttentionOp op) {
  return op.getGpuTileAttr() ? op.getGpuTileAttr().getSplits() : 1;
}

std::string KernelReference::compare() {
  for (Operation &op : kernel.getBody().front())
    if (auto grid = dyn_cast<kernel::GridOp>(op)) {
      int64_t blocks = evaluateExpr(kernel.getGrid().getResult(0), {}, sizes);
      for (int64_t block = 0; block < blocks && problem.empty(); ++block)
        evaluateBlock(grid.getBody().front(), block);
    } else if (auto scratch = dyn_cast<kernel::ScratchOp>(op)) {
      auto type = cast<MemRefType>(scratch.getMemory().getType());
      View &view = *scratches.emplace_back(std::make_unique<View>(viewOf(type)));
      view.scratch.resize(static_cast<size_t>(type.getNumElements()));
      views[scratch.getMemory()] = &view;
    } else if (auto rows = dyn_cast<kernel::RowsOp>(op)) { // every block the same
      evaluate(rows, 0);
    } else if (!isa<kernel::ReturnOp>(op)) {
      wrong("an op outside of the grid");
    }
  for (const View &view : arguments) {
    size_t bytes = view.type.getElementTypeBitWidth() / 8;
    for (size_t i = 0; i < view.written.size() && problem.empty(); ++i)
      if (!view.written[i] && !view.memory.workspace &&
          std::memcmp(view.memory.before + i * bytes, view.memory.after + i * bytes, bytes) != 0)
        wrong(view.name + ": element " + std::to_string(i) + " is not to be written");
  }
  return problem;
}

//===--- memory ---===//

size_t KernelReference::offset(const View &view, ArrayRef<int64_t> indices) const {
  int64_t at = 0;
  for (auto [index, stride] : llvm::zip_equal(indices, view.strides))
    at += index * stride;
  return static_cast<size_t>(at);
}

double KernelReference::element(const View &view, const std::byte *data, size_t at) const {
  auto read = [&]<typename T>(T number) {
    std::memcpy(&number, data + at * sizeof(T), sizeof(T));
    return number;
  };
  Type type = view.type.getElementType();
  if (type.isBF16())
    return double(bf16ToF32(read(uint16_t())));
  if (type.isF32())
    return double(read(float()));
  return double(read(int32_t()));
}

Bounded KernelReference::load(const View &view, ArrayRef<int64_t> indices) {
  size_t at = offset(view, indices);
  if (!view.scratch.empty())
    return view.scratch[at];
  if (at >= view.memory.elements) {
    wrong(view.name + ": a read of element " + std::to_string(at) + " of " +
          std::to_string(view.memory.elements));
    return {};
  }
  bool written = !view.written.empty() && view.written[at];
  return {element(view, written ? view.memory.after : view.memory.before, at), 0};
}

int64_t KernelReference::loadIndex(const View &view, ArrayRef<int64_t> indices) {
  return static_cast<int64_t>(load(view, indices).value);
}

void KernelReference::store(View &view, ArrayRef<int64_t> indices, Bounded number) {
  size_t at = offset(view, indices);
  Type type = view.type.getElementType();
  if (type.isBF16())
    number = asBf16(number);
  else if (type.isF32())
    number = asF32(number);
  if (!view.scratch.empty()) {
    view.scratch[at] = number;
    return;
  }
  if (at >= view.memory.elements || view.written.empty())
    return wrong(view.name + ": a write of element " + std::to_string(at));
  view.written[at] = true;
  double got = element(view, view.memory.after, at), difference = std::fabs(got - number.value);
  if (!(difference <= number.error)) {
    char text[200];
    std::snprintf(text, sizeof text, "element %zu: expected %.9g within %.3g, got %.9g", at,
                  number.value, number.error, got);
    wrong(view.name + " (" + llvm::formatv("{0}", view.type).str() + "): " + text);
  } else if (number.error > 0) {
    worstRatio = std::max(worstRatio, difference / number.error);
  }
}

int64_t KernelReference::extent(kernel::Extent extent) const {
  switch (extent) {
  case kernel::Extent::T:
    return sizes[0];
  case kernel::Extent::B:
    return sizes[1];
  case kernel::Extent::R:
    return sizes[4];
  }
  return 0;
}

//===--- core ops but attention ---===//

void KernelReference::evaluateBlock(Block &body, int64_t block) {
  // Of the blocks that share a sequence's keys those without any do nothing. The last split, which
  // always has some, stands for all.
  for (auto attention : body.getOps<kernel::AttentionOp>())
    if (int64_t splits = splitsOf(attention);
        block / view(attention.getVCache()).type.getDimSize(1) % splits != splits - 1)
      return;
  for (Operation &op : body) {
    if (!problem.empty())
      return;
    llvm::TypeSwitch<Operation *>(&op)
        .Case<kernel::RowsOp, kernel::ContractOp, kernel::AttentionOp, kernel::TopKOp>(
            [&](auto core) { evaluate(core, block); })
        .Case<kernel::EndOp>([](auto) {})
        .Default([&](Operation *other) {
          wrong("no reference for " + other->getName().getStringRef().str());
        });
  }
}

void KernelReference::evaluate(kernel::RowsOp op, int64_t block) {
  bool storesAll = !op.getOnce() || block == 0;
  SmallVector<int64_t> box;
  for (AffineExpr bound : op.getDomain().getResults())
    box.push_back(evaluateExpr(bound, block, sizes));
  SmallVector<AffineMap> maps(op.getMaps().getAsValueRange<AffineMapAttr>());
  auto indicesOf = [](AffineMap map, ArrayRef<int64_t> dims) {
    SmallVector<int64_t> indices;
    for (AffineExpr expr : map.getResults())
      indices.push_back(evaluateExpr(expr, dims, {}));
    return indices;
  };
  ArrayRef<int64_t> swizzled = op.getSwizzled().value_or(ArrayRef<int64_t>());
  auto swizzle = [&](SmallVector<int64_t> at, size_t memory) {
    if (llvm::is_contained(swizzled, static_cast<int64_t>(memory)))
      at.back() ^= 8 * at[at.size() - 2];
    return at;
  };
  Block &body = op.getBody().front();
  for (int64_t t = box[0]; t < std::min(box[1], extent(op.getExtent())); ++t)
    for (int64_t h = box[2]; h < box[3]; ++h) {
      SmallVector<int64_t> dims = {t, h, 0};
      for (Value lookup : op.getLookups())
        dims.push_back(loadIndex(view(lookup), t));
      Rows rows;
      for (auto [i, input] : llvm::enumerate(op.getInputs())) {
        Value argument = body.getArgument(static_cast<unsigned>(i));
        auto type = dyn_cast<RankedTensorType>(argument.getType());
        for (dims[2] = 0; dims[2] < (type ? type.getDimSize(0) : 1); ++dims[2]) {
          SmallVector<int64_t> at = indicesOf(maps[i], dims);
          rows[argument].push_back(load(view(input), swizzle(at, i)));
        }
      }
      std::vector<Row> results = evaluateBody(body, rows);
      for (auto [o, output] : llvm::enumerate(op.getOutputs())) {
        size_t i = op.getInputs().size() + o;
        if (!storesAll && view(output).scratch.empty())
          continue;
        for (size_t e = 0; e < results[o].size() && problem.empty(); ++e) {
          dims[2] = static_cast<int64_t>(e);
          store(view(output), swizzle(indicesOf(maps[i], dims), i), results[o][e]);
        }
      }
    }
}

std::vector<KernelReference::Row> KernelReference::evaluateBody(Block &body, Rows &rows) {
  for (Operation &op : body.without_terminator()) {
    Row result = evaluateOp(op, rows);
    rows[op.getResult(0)] = std::move(result);
  }
  std::vector<Row> results;
  for (Value yielded : body.getTerminator()->getOperands())
    results.push_back(rows.lookup(yielded));
  return results;
}

KernelReference::Row KernelReference::evaluateOp(Operation &op, Rows &rows) {
  auto operand = [&](unsigned i) -> const Row & { return rows.find(op.getOperand(i))->second; };
  auto unary = [&](Bounded (*function)(Bounded)) {
    Row result;
    for (Bounded x : operand(0))
      result.push_back(function(x));
    return result;
  };
  auto binary = [&](Bounded (*function)(Bounded, Bounded)) {
    Row result;
    for (auto [x, y] : llvm::zip_equal(operand(0), operand(1)))
      result.push_back(function(x, y));
    return result;
  };
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
      return {{number.getValueAsDouble(), 0}};
    Row result;
    if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue()))
      for (APFloat number : dense.getValues<APFloat>())
        result.push_back({number.convertToDouble(), 0});
    return result;
  }
  if (isa<arith::AddFOp>(op))
    return binary([](Bounded a, Bounded b) { return a + b; });
  if (isa<arith::SubFOp>(op))
    return binary([](Bounded a, Bounded b) { return a - b; });
  if (isa<arith::MulFOp>(op))
    return binary([](Bounded a, Bounded b) { return a * b; });
  if (isa<arith::DivFOp>(op))
    return binary([](Bounded a, Bounded b) { return a / b; });
  if (isa<arith::MaximumFOp, arith::MaxNumFOp>(op))
    return binary(larger);
  if (isa<arith::NegFOp>(op))
    return unary([](Bounded a) { return -a; });
  if (isa<math::SqrtOp>(op))
    return unary(squareRoot);
  if (isa<math::RsqrtOp>(op))
    return unary([](Bounded a) { return Bounded{1, 0} / squareRoot(a); });
  if (isa<math::ExpOp>(op))
    return unary(exponential);
  if (isa<math::TanhOp>(op))
    return unary(hyperbolicTangent);
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return operand(0); // storing rounds
  if (auto splat = dyn_cast<tensor::SplatOp>(op))
    return Row(static_cast<size_t>(splat.getType().getDimSize(0)), operand(0).front());
  if (auto extract = dyn_cast<tensor::ExtractSliceOp>(op)) {
    auto first = operand(0).begin() + extract.getStaticOffsets()[0];
    return Row(first, first + extract.getStaticSizes()[0]);
  }
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
    Row result = operand(1);
    llvm::copy(operand(0), result.begin() + insert.getStaticOffsets()[0]);
    return result;
  }
  if (auto reduce = dyn_cast<kernel::ReduceOp>(op)) {
    if (reduce.getKind() == kernel::Reduction::Max)
      return {std::accumulate(operand(0).begin(), operand(0).end(), Bounded{-INFINITY, 0}, larger)};
    Bounded sum;
    for (Bounded x : operand(0)) {
      sum.value += x.value;
      sum.error += x.error + sumError * std::fabs(x.value);
    }
    return {sum};
  }
  wrong("no reference for " + op.getName().getStringRef().str());
  return Row(1);
}

void KernelReference::evaluate(kernel::ContractOp op, int64_t block) {
  kernel::MmaAttr tile = op.getGpuTileAttr();
  if (!tile)
    return wrong("a contraction without a tile");
  View &act = view(op.getAct()), &weight = view(op.getWeight()), &out = view(op.getOut());
  bool prepared = op.hasPreparedRows();
  int64_t depth = prepared ? 64 * act.type.getDimSize(0) : act.type.getDimSize(1);
  int64_t columns = out.type.getDimSize(1);
  int64_t tileRows = tile.getRows(), tileTokens = tile.getTokens();
  int64_t rowTiles = llvm::divideCeil(weight.type.getDimSize(1) * 8, tileRows);
  if (tile.getSegments() > 0) { // blocks share tiles: the first one stands for all
    if (block != 0)
      return;
    tileRows *= rowTiles;
    tileTokens = extent(op.getExtent());
    rowTiles = 1;
  }
  int64_t firstRow = block % rowTiles * tileRows, firstToken = block / rowTiles * tileTokens;
  int64_t halves = op.getPair() ? 2 : 1;
  std::vector<Row> tokens;
  for (int64_t t = firstToken; t < std::min(firstToken + tileTokens, extent(op.getExtent())); ++t) {
    Row &row = tokens.emplace_back();
    for (int64_t k = 0; k < depth; ++k)
      row.push_back(prepared ? load(act, {k / 64, t, k % 64 ^ 8 * t}) : asBf16(load(act, {t, k})));
  }
  std::vector<double> weights(static_cast<size_t>(halves * depth));
  for (int64_t column = firstRow / halves;
       column < std::min((firstRow + tileRows) / halves, columns); ++column) {
    for (int64_t half = 0; half < halves; ++half)
      for (int64_t k = 0; k < depth; ++k) {
        int64_t group = halves * (column / 8) + half, r = column % 8;
        weights[static_cast<size_t>(half * depth + k)] =
            load(weight, {k / 64, group, r, k % 64 ^ 8 * r}).value;
      }
    for (size_t t = 0; t < tokens.size(); ++t) {
      Rows rows;
      for (int64_t half = 0; half < halves; ++half) {
        const double *w = weights.data() + half * depth;
        double sum = 0, magnitude = 0, error = 0;
        for (size_t k = 0; k < tokens[t].size(); ++k) {
          sum += w[k] * tokens[t][k].value;
          magnitude += std::fabs(w[k] * tokens[t][k].value);
          error += std::fabs(w[k]) * tokens[t][k].error;
        }
        rows[op.getEpilogue().getArgument(static_cast<unsigned>(half))] = {
            {sum, error + sumError * magnitude}};
      }
      Bounded result = evaluateBody(op.getEpilogue().front(), rows).front().front();
      store(out, {firstToken + static_cast<int64_t>(t), column}, result);
      if (!problem.empty())
        return;
    }
  }
  if (op.getBest())
    for (size_t t = 0; t < tokens.size(); ++t)
      expectBest(op, firstToken + static_cast<int64_t>(t), firstRow,
                 std::min(firstRow + tileRows, columns));
}

/// The keys of a token's row tiles, from what the kernel left in `out`.
void KernelReference::expectBest(kernel::ContractOp op, int64_t token, int64_t begin, int64_t end) {
  View &out = view(op.getOut()), &best = view(op.getBest());
  int64_t rows = op.getGpuTileAttr().getRows();
  for (int64_t first = begin; first < end; first += rows) {
    int64_t column = first;
    auto valueOf = [&](int64_t of) {
      return float(element(out, out.memory.after, offset(out, {token, of})));
    };
    for (int64_t other = first; other < std::min(first + rows, end); ++other)
      if (valueOf(other) > valueOf(column))
        column = other;
    auto bits = std::bit_cast<int32_t>(valueOf(column) + 0.0f);
    int32_t ordered = bits < 0 ? ~bits : bits ^ INT32_MIN;
    store(best, {token, first / rows, 0}, {double(~int32_t(column)), 0});
    store(best, {token, first / rows, 1}, {double(ordered), 0});
  }
}

void KernelReference::evaluate(kernel::TopKOp op, int64_t block) {
  if (block >= sizes[4])
    return;
  View &x = view(op.getX()), &values = view(op.getValues()), &ids = view(op.getIds());
  std::vector<std::pair<double, int64_t>> entries; // negated, so that the smaller index comes first
  entries.reserve(static_cast<size_t>(x.type.getDimSize(1)));
  for (int64_t i = 0; i < x.type.getDimSize(1); ++i)
    entries.push_back({-load(x, {block, i}).value, i});
  std::sort(entries.begin(), entries.end());
  for (int64_t i = 0; i < static_cast<int64_t>(op.getK()); ++i) {
    store(values, {block, i}, {-entries[static_cast<size_t>(i)].first, 0});
    store(ids, {block, i}, {double(entries[static_cast<size_t>(i)].second), 0});
  }
}

} // namespace gemma::test
