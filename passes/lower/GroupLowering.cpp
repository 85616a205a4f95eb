#include "passes/lower/GroupLowering.h"

#include "passes/lower/DeviceTiles.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace gemma::passes {

GroupLowering::GroupLowering(ir::GroupOp group, VariantMemory &memory, const VariantPlan &plan)
    : group(group), memory(memory), plan(plan),
      numerics(memory.module->getAttrOfType<ir::NumericsAttr>("gemma.numerics")),
      assembler(memory.builder, group.getLoc()), expressions(group.getContext()) {}

LogicalResult GroupLowering::run() {
  for (Operation &op : group.getBody().front()) {
    if (isa<ir::LinearOp, ir::LmHeadOp>(op))
      return lowerContraction(&op);
    if (auto gqa = dyn_cast<ir::GqaOp>(op))
      return lowerAttention(gqa);
  }
  return lowerRowsGroup();
}

//===----------------------------------------------------------------------===//
// Kinds of groups
//===----------------------------------------------------------------------===//

AffineExpr sizeOf(Builder &b, kernel::Extent extent) {
  switch (extent) {
  case kernel::Extent::T:
    return b.getAffineSymbolExpr(0);
  case kernel::Extent::B:
    return b.getAffineSymbolExpr(1);
  case kernel::Extent::R:
    return b.getAffineSymbolExpr(4);
  }
  llvm_unreachable("unknown extent");
}

LogicalResult GroupLowering::lowerRowsGroup() {
  Block &body = group.getBody().front();
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    ops.push_back(&op);
  Value first = ops.back()->getResult(0);
  kernel::Extent extent = kernel::Extent::T;
  if (isa<RankedTensorType>(first.getType()))
    extent = extentOf(first);
  block = assembler.enterGrid(group.getLoc());
  for (Operation *op : ops) {
    if (auto topk = dyn_cast<ir::TopKOp>(op))
      lowerTopK(topk);
    else if (failed(lowerRowNode(op)))
      return failure();
  }
  launch(assembler.finish(memory.module, nodeNames(ops),
                          AffineMap::get(0, 5, sizeOf(expressions, extent)),
                          onHost() ? 0 : kThreadsOfRows));
  return success();
}

Value GroupLowering::matrixOf(Value tensor) {
  Value source = memory.tensors.lookup(traceView(tensor).root).memory;
  auto wanted = MemRefType::get(cast<RankedTensorType>(tensor.getType()).getShape(),
                                cast<MemRefType>(source.getType()).getElementType());
  if (source.getType() != wanted)
    source = program::ViewOp::create(memory.builder, group.getLoc(), wanted, source, 0);
  return source;
}

//===----------------------------------------------------------------------===//
// Places and domains
//===----------------------------------------------------------------------===//

kernel::Extent GroupLowering::extentOf(Value tensor) {
  Value root = traceView(tensor).root;
  if (auto it = extents.find(root); it != extents.end())
    return it->second;
  if (auto it = memory.tensors.find(root); it != memory.tensors.end())
    return it->second.extent;
  Operation *op = root.getDefiningOp();
  if (!op || isa<ir::SelectRowsOp>(op))
    return extents[root] = op ? kernel::Extent::R : kernel::Extent::T;
  return extents[root] = extentOf(op->getOperand(0));
}

/// Indices of a [T, N] or [T, heads, D] tensor that lies in memory of rank 2 or 3.
static SmallVector<AffineExpr> rowIndices(Builder &b, AffineExpr t, RankedTensorType type,
                                          int64_t memoryRank, int64_t offset) {
  AffineExpr h = b.getAffineDimExpr(1), e = b.getAffineDimExpr(2);
  if (memoryRank == 3)
    return {t, h, e};
  if (type.getRank() == 3)
    return {t, h * type.getDimSize(2) + e + offset};
  return {t, e + offset};
}

Place GroupLowering::placeOf(Value tensor) {
  if (auto it = places.find(tensor); it != places.end())
    return it->second;
  TensorView view = traceView(tensor);
  auto type = cast<RankedTensorType>(tensor.getType());
  AffineExpr t = expressions.getAffineDimExpr(0);
  Value source = memory.tensors.lookup(view.root).memory;
  assert(source && "a tensor that no group and no argument gives");
  int64_t rank = cast<MemRefType>(source.getType()).getRank();
  SmallVector<AffineExpr> indices = rowIndices(expressions, t, type, rank, view.offset);
  if (ofQueries && type.getRank() == 3) // every split reads the same
    for (AffineExpr &index : indices) {
      AffineExpr h = expressions.getAffineDimExpr(1);
      index = index.replace(h, h % type.getDimSize(1));
    }
  return {assembler.argument(source, kernel::Access::Read), indices};
}

bool GroupLowering::isYielded(Value result) {
  return llvm::is_contained(group.getBody().front().getTerminator()->getOperands(), result);
}

MemRefType GroupLowering::storageType(Value result) {
  auto type = cast<RankedTensorType>(result.getType());
  Operation *op = result.getDefiningOp();
  Type element = numerics.getActivations();
  if (isa<ir::TopKOp>(op))
    element = type.getElementType();
  else if (isa<ir::LmHeadOp>(op))
    element = numerics.getLogits();
  else if (isa<ir::EmbedOp, ir::ResidualOp, ir::SelectRowsOp>(op))
    element = numerics.getResidual();
  return MemRefType::get(type.getShape(), element);
}

/// The name of the step's output that a value is; none if it is not returned.
static StringRef outputName(Value value) {
  for (OpOperand &use : value.getUses())
    if (isa<func::ReturnOp>(use.getOwner())) {
      auto function = use.getOwner()->getParentOfType<func::FuncOp>();
      auto name = function.getResultAttrOfType<StringAttr>(use.getOperandNumber(), "gemma.output");
      return name ? name.getValue() : "logits";
    }
  return "";
}

Value GroupLowering::yieldedMemory(Value result, kernel::Extent extent) {
  auto yielded = group.getBody().front().getTerminator()->getOperands();
  unsigned index = llvm::find(yielded, result) - yielded.begin();
  Value outer = group.getResult(index);
  VariantMemory::Tensor &tensor = memory.tensors[outer];
  if (!tensor.memory) {
    tensor = {memory.buffer(result.getLoc(), storageType(result), extent, outputName(outer)),
              extent};
  }
  return tensor.memory;
}

Place GroupLowering::resultPlace(Value result) {
  auto type = cast<RankedTensorType>(result.getType());
  AffineExpr t = expressions.getAffineDimExpr(0);
  Place place;
  if (result == prepared) {
    AffineExpr e = expressions.getAffineDimExpr(2);
    auto kBlocks = static_cast<int64_t>(llvm::divideCeil(type.getDimSize(1), 64));
    place.memory = assembler.scratch(
        MemRefType::get({kBlocks, plan.maxTokens, 64}, expressions.getBF16Type()));
    place.indices = {e.floorDiv(64), t, e % 64};
    return places[result] = place;
  }
  if (blocks == Blocks::Hoisted) {
    SmallVector<int64_t> shape(type.getShape());
    shape[0] = extentOf(result) == kernel::Extent::R ? plan.maxLogitRows : plan.maxTokens;
    place.memory = assembler.scratch(MemRefType::get(shape, type.getElementType()));
  } else if (isYielded(result)) {
    place.memory =
        assembler.argument(yieldedMemory(result, extentOf(result)), kernel::Access::Write);
  } else if (blocks == Blocks::Head) { // rows of other heads belong to other blocks
    MemRefType stored = storageType(result);
    kernel::Extent extent = extentOf(result);
    Value buffer;
    if (ofQueries) { // no tensor of the graph: a copy a split
      SmallVector<int64_t> shape(stored.getShape());
      shape[1] *= splits;
      buffer = memory.workspace(result.getLoc(), stored.clone(shape), extent);
    } else {
      buffer = memory.buffer(result.getLoc(), stored, extent);
    }
    place.memory = assembler.argument(buffer, kernel::Access::Write);
  } else {
    SmallVector<int64_t> shape(type.getShape());
    shape[0] = 1;
    place.memory = assembler.scratch(MemRefType::get(shape, type.getElementType()));
    t = expressions.getAffineConstantExpr(0);
  }
  place.indices = rowIndices(expressions, t, type, type.getRank(), 0);
  return places[result] = place;
}

RowDomain GroupLowering::domain(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  int64_t heads = type.getRank() == 3 ? type.getDimSize(1) : 1;
  kernel::Extent extent = extentOf(tensor);
  Builder &b = expressions;
  AffineExpr zero = b.getAffineConstantExpr(0), all = b.getAffineConstantExpr(heads);
  MLIRContext *context = b.getContext();
  if (blocks == Blocks::Hoisted)
    return {Value(), AffineMap::get(0, 5, {zero, sizeOf(b, extent), zero, all}, context), extent};
  AffineExpr j = b.getAffineDimExpr(0);
  if (blocks == Blocks::Row)
    return {block, AffineMap::get(1, 5, {j, j + 1, zero, all}, context), extent};
  // There are parts on the host and splits elsewhere. Every part makes the new keys and values and
  // appends them: all store the same bytes, and each reads them behind its own store, so that what
  // it reads depends on no other block.
  bool ofKeys = heads == kvHeads && !ofQueries;
  int64_t each = ofKeys ? 1 : groupHeads / headParts;
  AffineExpr row = j.floorDiv(kvHeads * headParts * splits);
  AffineExpr head = ofKeys ? j.floorDiv(headParts) % kvHeads : (j % (kvHeads * headParts)) * each;
  AffineExpr split = j.floorDiv(kvHeads) % splits, count = b.getAffineConstantExpr(1);
  if (ofQueries) // a copy a split
    head = split * heads + head;
  else if (splits > 1) // the last split alone, which has the newest key
    count = (split + 1).floorDiv(splits);
  return {block, AffineMap::get(1, 5, {row, row + count, head, head + each}, context), extent};
}

//===----------------------------------------------------------------------===//
// The launch
//===----------------------------------------------------------------------===//

/// The spec key of a node without its layer: "layers[3].attn.core" -> "attn_core".
static std::string nodeName(Operation *op) {
  auto named = dyn_cast<NameLoc>(op->getLoc());
  std::string name = named ? named.getName().str() : op->getName().stripDialect().str();
  if (StringRef(name).starts_with("layers["))
    name = name.substr(name.find("].") + 2);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

std::string GroupLowering::nodeNames(ArrayRef<Operation *> ops) {
  std::string names;
  for (Operation *op : ops) {
    std::string name = nodeName(op);
    if (!StringRef(names).ends_with(name))
      names += (names.empty() ? "" : "__") + name;
  }
  return names;
}

void GroupLowering::launch(kernel::FuncOp function) {
  program::LaunchOp::create(memory.builder, group.getLoc(), function.getSymName(),
                            assembler.launchOperands());
}

} // namespace gemma::passes
