// Projections: a group with a linear or a head -> kernel.contract, with the row nodes before it and
// the activation behind it.
#include "dialect/program/Layout.h"
#include "passes/lower/DeviceTiles.h"
#include "passes/lower/GroupLowering.h"
#include "passes/lower/RowMath.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace gemma::passes {

/// Packed panels that one block of a contraction computes, for few rows and for many: their
/// activations are prepared once for all panels of the block, but workers want blocks to share.
static constexpr int64_t kPanelsOfFewRows = 2, kPanelsOfRows = 16, kBlocksToShare = 16;
/// Rows that a contraction works on together: a tile of registers, or a block that many tiles
/// divide.
static constexpr int64_t kFewRows = 8, kRows = 132;

LogicalResult GroupLowering::lowerContraction(Operation *contraction) {
  Location loc = contraction->getLoc();
  blocks = Blocks::Hoisted;
  Value x = contraction->getOperand(0);
  if (!onHost() && x.getDefiningOp() && x.getDefiningOp()->getBlock() == contraction->getBlock()) {
    if (isYielded(x))
      return contraction->emitOpError("prepares rows in shared memory that others read too");
    prepared = x;
  }
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
    cut = cutContraction(b.getContext(), packed.getDimSize(1), packed.getDimSize(0), extent, plan);
  kernel::MmaAttr tile = cut.tile;
  int64_t rows = plan.hoistRows ? kFewRows : kRows;
  int64_t panels = plan.hoistRows ? kPanelsOfFewRows : kPanelsOfRows;
  while (panels > kPanelsOfFewRows && packed.getDimSize(0) < kBlocksToShare * panels)
    panels /= 2;
  Value partials, tickets;
  if (int64_t segments = tile ? tile.getSegments() : 0) {
    auto sums = MemRefType::get({2 * segments, tile.getRows() * tile.getTokens()}, b.getF32Type());
    partials =
        assembler.argument(memory.workspace(loc, sums, std::nullopt), kernel::Access::ReadWrite);
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
                                 b.getI64IntegerAttr(tile ? tile.getTokens() : rows),
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
      if (std::optional<llvm::APFloat> softcap = head.getSoftcap()) {
        Value cap = m.constant(acc, softcap->convertToDouble());
        value = m.mul(cap, m.tanh(m.div(value, cap)));
      }
    }
    kernel::YieldOp::create(b, loc, value);
  }
  SmallVector<Operation *> named = {contraction};
  if (activation)
    named.push_back(activation);
  AffineExpr blocks = expressions.getAffineConstantExpr(
      tile ? llvm::divideCeil(packed.getDimSize(1) * 8, tile.getRows())
           : llvm::divideCeil(packed.getDimSize(0), panels));
  if (tile)
    blocks = partials ? expressions.getAffineConstantExpr(tile.getSegments())
                      : blocks * sizeOf(expressions, extent).ceilDiv(tile.getTokens());
  if (tile) {
    assembler.fuseRows();
    if (failed(fitStages(op)))
      return contraction->emitOpError() << "needs more than " << kSharedLimit
                                        << " bytes of shared memory for its rows and two steps";
  }
  launch(
      assembler.finish(memory.module, nodeNames(named), AffineMap::get(0, 5, blocks), cut.threads));
  return success();
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

} // namespace gemma::passes
