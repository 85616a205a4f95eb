// Attention: a group with a gqa -> kernel.attention, with what makes its queries and appends new
// keys and values before it.
#include "passes/lower/DeviceTiles.h"
#include "passes/lower/GroupLowering.h"
#include "passes/lower/Storage.h"

using namespace mlir;

namespace gemma::passes {

/// New tokens of one sequence that one block of a prefill attention handles.
static constexpr int64_t kQueryTile = 8;

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

/// Blocks that share the query heads of a KV head in the host's decode. Where KV heads are few, a
/// sequence has too few blocks for two cores otherwise. The making of new rows, and of keys from
/// values, is what each does for itself: 8 query heads are worth it.
static int64_t attentionParts(const VariantPlan &plan, int64_t heads, int64_t kvHeads) {
  constexpr int64_t ofBlock = 8, fewKvHeads = 2;
  int64_t group = heads / kvHeads;
  bool cut = plan.family == Family::Host && plan.fuseAttention && kvHeads <= fewKvHeads &&
             group > ofBlock && group % ofBlock == 0;
  return cut ? group / ofBlock : 1;
}

LogicalResult GroupLowering::lowerAttention(ir::GqaOp gqa) {
  Location loc = gqa.getLoc();
  auto type = cast<RankedTensorType>(gqa.getQ().getType());
  kvHeads = gqa.getKvHeads();
  groupHeads = type.getDimSize(1) / kvHeads;
  headParts = attentionParts(plan, type.getDimSize(1), kvHeads);
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
  SmallVector<Value> scales;
  if (cache.hasScales()) {
    if (k)
      scales.push_back(
          assembler.argument(memory.cacheLane(symbol, "k_scales"), kernel::Access::Read));
    scales.push_back(
        assembler.argument(memory.cacheLane(symbol, "v_scales"), kernel::Access::Read));
  }
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
    partials = assembler.argument(memory.workspace(loc, parts, kernel::Extent::B),
                                  kernel::Access::ReadWrite);
    tickets =
        assembler.argument(memory.tickets(plan.maxSequences * kvHeads), kernel::Access::ReadWrite);
  }
  auto op = kernel::AttentionOp::create(
      b, loc, block, q.memory, k, keyParts, v, scales, out, batch[0], batch[1], batch[2], batch[3],
      partials, tickets, keyRot, b.getI64IntegerAttr(queryTile), gqa.getScaleAttr(),
      b.getI64IntegerAttr(gqa.getWindow().value_or(0)),
      kernel::PagingAttr::get(b.getContext(), cache.getPage(), cache.getRingPages().value_or(0)),
      TypeAttr::get(numerics.getAccumulate()),
      headParts > 1 ? b.getI64IntegerAttr(headParts) : IntegerAttr(), kernel::FlashAttr());
  if (!onHost() && failed(setAttentionTile(op, splits)))
    return gqa.emitOpError() << "needs more than " << kSharedLimit
                             << " bytes of shared memory for 16 keys";
  queryTile = op.getQueryTile();
  AffineExpr tiles = sizeOf(expressions, kernel::Extent::T).floorDiv(queryTile) +
                     sizeOf(expressions, kernel::Extent::B);
  if (plan.fuseAttention) // every row has one new token
    tiles = sizeOf(expressions, kernel::Extent::B);
  launch(assembler.finish(memory.module, nodeNames({gqa}),
                          AffineMap::get(0, 5, tiles * kvHeads * splits * headParts),
                          onHost() ? 0 : attentionThreads(op)));
  return success();
}

} // namespace gemma::passes
