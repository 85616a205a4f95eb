#include "tools/compiler/KernelCost.h"

#include "dialect/gemma/Gemma.h"

#include "mlir/IR/AffineMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace gemma::compiler {
namespace {

std::array<int64_t, 5> symbolsOf(const StepSizes &sizes) {
  return {sizes.tokens, sizes.sequences, sizes.longestRun, sizes.longest, sizes.logitRows};
}

/// The results of a map of sizes, at `block` if it has a dimension.
SmallVector<int64_t> evaluate(AffineMap map, const StepSizes &sizes, int64_t block = 0) {
  SmallVector<Attribute> operands, results;
  Builder builder(map.getContext());
  for (unsigned i = 0; i < map.getNumDims(); ++i)
    operands.push_back(builder.getIndexAttr(block));
  for (int64_t size : symbolsOf(sizes))
    operands.push_back(builder.getIndexAttr(size));
  SmallVector<int64_t> numbers;
  if (succeeded(map.constantFold(operands, results)))
    for (Attribute result : results)
      numbers.push_back(cast<IntegerAttr>(result).getInt());
  return numbers;
}

int64_t elementBytes(Value memref) {
  return cast<MemRefType>(memref.getType()).getElementTypeBitWidth() / 8;
}

double bytesOf(Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  return double(type.getNumElements()) * double(elementBytes(memref));
}

double rowsIn(kernel::Extent extent, const StepSizes &sizes) {
  switch (extent) {
  case kernel::Extent::T:
    return double(sizes.tokens);
  case kernel::Extent::B:
    return double(sizes.sequences);
  case kernel::Extent::R:
    return double(sizes.logitRows);
  }
  llvm_unreachable("unknown extent");
}

KernelCost costOf(kernel::ContractOp op, const StepSizes &sizes) {
  double rows = rowsIn(op.getExtent(), sizes);
  auto act = cast<MemRefType>(op.getAct().getType()), out = cast<MemRefType>(op.getOut().getType());
  bool prepared = op.hasPreparedRows(); // read by the ops that prepare them
  double depth = double(prepared ? 64 * act.getDimSize(0) : act.getDimSize(1)),
         columns = double(out.getDimSize(1));
  if (rows == 0)
    return {};
  double readings = 1;
  if (std::optional<kernel::MmaAttr> tile = op.getGpuTile())
    readings = std::ceil(rows / double(tile->getTokens() * tile->getRaster()));
  return {readings * bytesOf(op.getWeight()) +
              rows * (depth * (prepared ? 0 : double(elementBytes(op.getAct()))) +
                      columns * double(elementBytes(op.getOut()))),
          2 * rows * depth * columns * (op.getPair() ? 2 : 1)};
}

KernelCost costOf(kernel::AttentionOp op, const StepSizes &sizes) {
  auto out = cast<MemRefType>(op.getOut().getType());
  auto v = cast<MemRefType>(op.getVCache().getType());
  double heads = double(out.getDimSize(1)), dim = double(out.getDimSize(2)),
         kvHeads = double(v.getDimSize(1));
  int64_t fresh = sizes.tokens / std::max<int64_t>(1, sizes.sequences);
  ir::CostSizes step{.tokens = fresh, .context = std::max<int64_t>(0, sizes.longest - fresh)};
  auto window = static_cast<int64_t>(op.getWindow());
  double batch = double(sizes.sequences), lanes = op.getKCache() ? 2 : 1;
  double cache = batch * double(step.visibleKeys(window)) * kvHeads * dim * lanes *
                 double(elementBytes(op.getVCache()));
  double rows = double(sizes.tokens) * heads * dim *
                double(elementBytes(op.getQ()) + elementBytes(op.getOut()));
  return {cache + rows, batch * double(step.visiblePairs(window)) * heads * dim * 4};
}

/// Elements of a row that a body's value is.
int64_t widthOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? tensor.getNumElements() : 1;
}

/// Different rows that all blocks together compute. Blocks of large grids count as the first one.
double rowsOf(kernel::RowsOp op, int64_t blocks, const StepSizes &sizes) {
  auto height = [](int64_t begin, int64_t end) {
    return double(std::max<int64_t>(0, end - begin));
  };
  double extent = rowsIn(op.getExtent(), sizes), rows = 0;
  if (!op.getBlock()) // every block the same ones
    blocks = 1;
  if (blocks > 1024 || !op.getBlock()) {
    SmallVector<int64_t> box = evaluate(op.getDomain(), sizes);
    if (box.size() != 4)
      return 0;
    return std::min(double(blocks) * height(box[0], box[1]), std::max(extent, double(blocks))) *
           height(box[2], box[3]);
  }
  for (int64_t block = 0; block < blocks; ++block)
    if (SmallVector<int64_t> box = evaluate(op.getDomain(), sizes, block); box.size() == 4)
      rows += height(box[0], std::min(box[1], int64_t(extent))) * height(box[2], box[3]);
  return rows;
}

KernelCost costOf(kernel::RowsOp op, int64_t blocks, const StepSizes &sizes) {
  double rows = rowsOf(op, blocks, sizes);
  KernelCost cost;
  auto count = [&](Value memref, int64_t width) {
    if (memref.getDefiningOp<kernel::ScratchOp>())
      return;
    double bytes = rows * double(width) * double(elementBytes(memref));
    auto type = cast<MemRefType>(memref.getType());
    cost.bytes += type.hasStaticShape() ? std::min(bytes, bytesOf(memref)) : bytes;
  };
  Block &body = op.getBody().front();
  for (auto [input, argument] : llvm::zip(op.getInputs(), body.getArguments()))
    count(input, widthOf(argument.getType()));
  for (auto [output, value] : llvm::zip(op.getOutputs(), body.getTerminator()->getOperands()))
    count(output, widthOf(value.getType()));
  for (Operation &each : body.without_terminator())
    if (each.getDialect() &&
        llvm::is_contained({"arith", "math", "kernel"}, each.getDialect()->getNamespace()))
      for (Value operand : each.getOperands().take_front(1))
        cost.flops += rows * double(widthOf(operand.getType()));
  return cost;
}

KernelCost costOf(kernel::TopKOp op, const StepSizes &sizes) {
  auto x = cast<MemRefType>(op.getX().getType());
  if (op.getBest()) { // a key a tile
    auto keys = cast<MemRefType>(op.getBest().getType());
    double tiles = double(sizes.logitRows) * double(keys.getDimSize(1));
    return {8 * tiles, tiles};
  }
  double elements = double(sizes.logitRows) * double(x.getDimSize(1));
  return {elements * double(elementBytes(op.getX())), elements};
}

} // namespace

int64_t gridBlocks(kernel::FuncOp kernel, const StepSizes &sizes) {
  SmallVector<int64_t> blocks = evaluate(kernel.getGrid(), sizes);
  return blocks.empty() ? 0 : blocks.front();
}

KernelCost costOf(kernel::FuncOp kernel, const StepSizes &sizes) {
  KernelCost sum;
  int64_t blocks = gridBlocks(kernel, sizes);
  kernel.walk([&](Operation *op) {
    KernelCost cost = llvm::TypeSwitch<Operation *, KernelCost>(op)
                          .Case<kernel::ContractOp, kernel::AttentionOp, kernel::TopKOp>(
                              [&](auto core) { return costOf(core, sizes); })
                          .Case([&](kernel::RowsOp rows) { return costOf(rows, blocks, sizes); })
                          .Default([](Operation *) { return KernelCost(); });
    sum.bytes += cost.bytes;
    sum.flops += cost.flops;
  });
  return sum;
}

std::string instanceOf(kernel::FuncOp kernel) {
  std::string name;
  kernel.walk([&](Operation *op) {
    if (auto contract = dyn_cast<kernel::ContractOp>(op); contract && contract.getGpuTile()) {
      kernel::MmaAttr tile = *contract.getGpuTile();
      name = llvm::formatv("mma {0}x{1}x{2}, {3} stages", tile.getRows(), tile.getTokens(),
                           tile.getK(), tile.getStages());
      if (tile.getSegments() > 0)
        name += llvm::formatv(", {0} runs", tile.getSegments());
    } else if (auto attention = dyn_cast<kernel::AttentionOp>(op);
               attention && attention.getGpuTile()) {
      kernel::FlashAttr tile = *attention.getGpuTile();
      name = llvm::formatv("flash {0} queries, {1} keys, {2} stages", attention.getQueryTile(),
                           tile.getKeys(), tile.getStages());
      if (tile.getSplits() > 1)
        name += llvm::formatv(", {0} splits", tile.getSplits());
    } else if (isa<kernel::TopKOp>(op)) {
      name = "topk";
    } else if (isa<kernel::RowsOp>(op) && name.empty()) {
      name = "rows";
    }
  });
  return name;
}

} // namespace gemma::compiler
