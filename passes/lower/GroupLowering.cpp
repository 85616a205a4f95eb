#include "passes/lower/GroupLowering.h"

#include "dialect/program/Layout.h"
#include "passes/lower/DeviceTiles.h"
#include "passes/lower/RowMath.h"
#include "passes/lower/Storage.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace gemma::passes {

/// Packed panels that one block of a contraction computes.
static constexpr int64_t kPanelsOfBlock = 2;
/// The same where weights are integers and rows are many: a tile of rows may have to be brought
/// into another form, which its panels share.
static constexpr int64_t kPanelsOfQuantisedBlock = 4;
/// Most rows that a contraction keeps in registers together.
static constexpr int64_t kRowTile = 8;
/// New tokens of one sequence that one block of a prefill attention handles.
static constexpr int64_t kQueryTile = 8;

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

LogicalResult GroupLowering::lowerContraction(Operation *contraction) {
  Location loc = contraction->getLoc();
  blocks = Blocks::Hoisted;
  Operation *activation = nullptr;
  for (Operation &op : group.getBody().front().without_terminator()) {
    if (op.isBeforeInBlock(contraction)) {
      if (failed(lowerRowNode(&op)))
        return failure();
      for (Value result : op.getResults())
        if (isYielded(result)) { // every worker has it in scratch; one writes it out
          Place source = placeOf(result);
          Value out =
              assembler.argument(yieldedMemory(result, extentOf(result)), kernel::Access::Write);
          RowDomain all = domain(result);
          all.once = true;
          assembler.rows(
              loc, all, {rowInput(result)}, {{out, source.indices}}, {},
              [](OpBuilder &, Location, ValueRange args) { return SmallVector<Value>(args); });
        }
    } else if (&op != contraction) {
      activation = &op;
    }
  }

  Value x = contraction->getOperand(0);
  StringRef symbol = isa<ir::LinearOp>(contraction) ? cast<ir::LinearOp>(contraction).getWeight()
                                                    : cast<ir::LmHeadOp>(contraction).getWeight();
  auto recipe = memory.module.lookupSymbol<program::WeightOp>(symbol);
  if (!places.contains(x) && traceView(x).offset != 0)
    return contraction->emitOpError("cannot read part of a row");
  Value act;
  SmallVector<Value> quantised;
  if (program::isQuantised(recipe.getType().getElementType())) {
    Codes codes = quantise(x, recipe);
    act = codes.codes;
    quantised = {assembler.argument(memory.weightScales(symbol), kernel::Access::Read),
                 codes.scales, codes.starts};
  } else {
    act = places.contains(x) ? places[x].memory
                             : assembler.argument(matrixOf(x), kernel::Access::Read);
  }

  kernel::Extent extent = extentOf(x);
  Value weight = memory.weight(symbol);
  Value result = activation ? activation->getResult(0) : contraction->getResult(0);
  Value weightArg = assembler.argument(weight, kernel::Access::Read);
  Value out = assembler.argument(yieldedMemory(result, extent), kernel::Access::Write);

  block = assembler.enterGrid(loc);
  OpBuilder &b = assembler.builder();
  auto packed = cast<MemRefType>(weight.getType());
  ContractionCut cut;
  if (!onHost())
    cut = cutContraction(b.getContext(), packed.getDimSize(1), packed.getDimSize(0), plan);
  kernel::MmaAttr tile = cut.tile;
  int64_t panels = quantised.empty() || plan.hoistRows ? kPanelsOfBlock : kPanelsOfQuantisedBlock;
  Value partials, tickets;
  if (int64_t segments = tile ? tile.getSegments() : 0) {
    auto sums = MemRefType::get({2 * segments, tile.getRows() * tile.getTokens()}, b.getF32Type());
    partials = assembler.argument(memory.workspace(loc, sums), kernel::Access::ReadWrite);
    tickets = assembler.argument(memory.tickets(segments), kernel::Access::ReadWrite);
  }
  Value best;
  if (tile)
    if (Value memory =
            bestOf(contraction, llvm::divideCeil(packed.getDimSize(1) * 8, tile.getRows())))
      best = assembler.argument(memory, kernel::Access::Write);
  auto op =
      kernel::ContractOp::create(b, loc, block, act, weightArg, out, quantised, partials, tickets,
                                 best, kernel::ExtentAttr::get(b.getContext(), extent),
                                 b.getI64IntegerAttr(tile ? tile.getRows() / 8 : panels),
                                 b.getI64IntegerAttr(tile ? tile.getTokens() : kRowTile),
                                 activation ? b.getUnitAttr() : UnitAttr(), tile);
  {
    OpBuilder::InsertionGuard guard(b);
    Type acc = numerics.getAccumulate();
    SmallVector<Type> types(activation ? 2 : 1, acc);
    Block *body =
        b.createBlock(&op.getEpilogue(), {}, types, SmallVector<Location>(types.size(), loc));
    RowMath m(b, activation ? activation->getLoc() : loc);
    Value value = body->getArgument(0);
    if (activation) {
      Value gate = isa<ir::GeluMulOp>(activation) ? m.geluTanh(value) : m.silu(value);
      value = m.mul(gate, body->getArgument(1));
    } else if (auto head = dyn_cast<ir::LmHeadOp>(contraction)) {
      value = m.scale(value, head.getMul().convertToDouble());
      if (head.getSoftcap()) {
        Value cap = m.constant(acc, head.getSoftcap()->convertToDouble());
        value = m.mul(cap, m.tanh(m.div(value, cap)));
      }
    }
    kernel::YieldOp::create(b, loc, value);
  }
  if (tile)
    fitStages(op);
  SmallVector<Operation *> named = {contraction};
  if (activation)
    named.push_back(activation);
  AffineExpr blocks = expressions.getAffineConstantExpr(
      tile ? llvm::divideCeil(packed.getDimSize(1) * 8, tile.getRows())
           : llvm::divideCeil(packed.getDimSize(0), panels));
  if (tile)
    blocks = partials ? expressions.getAffineConstantExpr(tile.getSegments())
                      : blocks * sizeOf(expressions, extent).ceilDiv(tile.getTokens());
  launch(
      assembler.finish(memory.module, nodeNames(named), AffineMap::get(0, 5, blocks), cut.threads));
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

Value GroupLowering::bestOf(Operation *head, int64_t rowTiles) {
  if (!isa<ir::LmHeadOp>(head) || !plan.fuseRows || !isYielded(head->getResult(0)))
    return nullptr;
  auto yielded = group.getBody().front().getTerminator()->getOperands();
  Value logits =
      group.getResult(unsigned(llvm::find(yielded, head->getResult(0)) - yielded.begin()));
  auto wantsLargest = [](Operation *user) {
    auto top = dyn_cast<ir::TopKOp>(user);
    return top && top.getK() == 1;
  };
  if (!numerics.getLogits().isF32() || !llvm::any_of(logits.getUsers(), wantsLargest))
    return nullptr;
  auto type = MemRefType::get({ShapedType::kDynamic, rowTiles, 2}, expressions.getI32Type());
  return memory.best[logits] = memory.buffer(head->getLoc(), type, extentOf(head->getOperand(0)));
}

llvm::SmallPtrSet<Operation *, 8> GroupLowering::queryNodes(ir::GqaOp gqa) {
  llvm::SmallPtrSet<Operation *, 8> nodes;
  SmallVector<Value> open = {gqa.getQ()};
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || op->getBlock() != gqa->getBlock() || !nodes.insert(op).second)
      continue;
    if (llvm::any_of(op->getResults(), [&](Value result) { return isYielded(result); }))
      return {};
    llvm::append_range(open, op->getOperands());
  }
  return nodes;
}

LogicalResult GroupLowering::lowerAttention(ir::GqaOp gqa) {
  Location loc = gqa.getLoc();
  auto type = cast<RankedTensorType>(gqa.getQ().getType());
  kvHeads = gqa.getKvHeads();
  groupHeads = type.getDimSize(1) / kvHeads;
  blocks = Blocks::Head;
  block = assembler.enterGrid(loc);
  llvm::SmallPtrSet<Operation *, 8> makeQueries;
  if (!onHost())
    makeQueries = queryNodes(gqa);
  if (!makeQueries.empty())
    splits = attentionSplits(plan, kvHeads, gqa.getWindow().value_or(0), memory.limits.maxContext);
  SmallVector<Operation *> ops;
  for (Operation &op : group.getBody().front().without_terminator()) {
    ops.push_back(&op);
    ofQueries = splits > 1 && makeQueries.contains(&op);
    if (&op != gqa && failed(lowerRowNode(&op)))
      return failure();
  }
  ofQueries = false;

  StringRef symbol = gqa.getCache().getType().getSymbol().getValue();
  auto cache = memory.module.lookupSymbol<program::CacheOp>(symbol);
  Place q = placeOf(gqa.getQ());
  assembler.markRead(q.memory);
  Value k;
  SmallVector<Value> keyParts;
  IntegerAttr keyRot;
  if (std::optional<ir::KeysOfValuesAttr> keys = gqa.getKeys()) {
    program::TableOp table = findTable(memory.module, keys->getTheta().getValueAsDouble(),
                                       keys->getDenom(), keys->getActive());
    keyParts.push_back(
        assembler.argument(memory.weight(keys->getNorm().getValue()), kernel::Access::Read));
    for (StringRef lane : {"cos_hi", "sin_hi", "cos_lo", "sin_lo"})
      keyParts.push_back(assembler.argument(memory.tableLane(table, lane), kernel::Access::Read));
    keyRot = expressions.getI64IntegerAttr(keys->getRot());
  } else {
    k = assembler.argument(memory.cacheLane(symbol, "k"), kernel::Access::Read);
  }
  Value v = assembler.argument(memory.cacheLane(symbol, "v"), kernel::Access::Read);
  Value out =
      assembler.argument(yieldedMemory(gqa.getResult(), kernel::Extent::T), kernel::Access::Write);
  SmallVector<Value> batch;
  for (StringRef name : {"row_starts", "seq_lens", "slots", "page_table"})
    batch.push_back(assembler.argument(memory.input(name), kernel::Access::Read));
  int64_t queryTile = plan.fuseAttention ? 1 : kQueryTile;
  OpBuilder &b = assembler.builder();
  Value partials, tickets;
  if (splits > 1) {
    int64_t width = type.getDimSize(2) + 4;
    auto parts =
        MemRefType::get({ShapedType::kDynamic, kvHeads, splits, groupHeads, width}, b.getF32Type());
    partials = assembler.argument(memory.workspace(loc, parts), kernel::Access::ReadWrite);
    tickets =
        assembler.argument(memory.tickets(plan.maxSequences * kvHeads), kernel::Access::ReadWrite);
  }
  auto op = kernel::AttentionOp::create(
      b, loc, block, q.memory, k, keyParts, v, out, batch[0], batch[1], batch[2], batch[3],
      partials, tickets, keyRot, b.getI64IntegerAttr(queryTile), gqa.getScaleAttr(),
      b.getI64IntegerAttr(gqa.getWindow().value_or(0)),
      kernel::PagingAttr::get(b.getContext(), cache.getPage(), cache.getRingPages().value_or(0)),
      TypeAttr::get(numerics.getAccumulate()), kernel::FlashAttr());
  if (!onHost() && failed(setAttentionTile(op, splits)))
    return gqa.emitOpError() << "needs more than " << kSharedLimit
                             << " bytes of shared memory for 16 keys";
  queryTile = op.getQueryTile();
  AffineExpr tiles = sizeOf(expressions, kernel::Extent::T).floorDiv(queryTile) +
                     sizeOf(expressions, kernel::Extent::B);
  if (plan.fuseAttention) // every row has one new token
    tiles = sizeOf(expressions, kernel::Extent::B);
  launch(assembler.finish(memory.module, nodeNames({gqa}),
                          AffineMap::get(0, 5, tiles * kvHeads * splits),
                          onHost() ? 0 : attentionThreads(op)));
  return success();
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
  if (blocks == Blocks::Hoisted) {
    SmallVector<int64_t> shape(type.getShape());
    shape[0] = extentOf(result) == kernel::Extent::R ? plan.maxLogitRows : plan.maxTokens;
    place.memory = assembler.scratch(MemRefType::get(shape, type.getElementType()));
  } else if (isYielded(result)) {
    place.memory =
        assembler.argument(yieldedMemory(result, extentOf(result)), kernel::Access::Write);
  } else if (blocks == Blocks::Head) { // rows of other heads belong to other blocks
    MemRefType stored = storageType(result);
    if (ofQueries) {
      SmallVector<int64_t> shape(stored.getShape());
      shape[1] *= splits;
      stored = stored.clone(shape);
    }
    Value buffer = memory.buffer(result.getLoc(), stored, extentOf(result));
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
  int64_t each = heads == kvHeads && !ofQueries ? 1 : groupHeads;
  AffineExpr row = j.floorDiv(kvHeads * splits), head = (j % kvHeads) * each;
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
