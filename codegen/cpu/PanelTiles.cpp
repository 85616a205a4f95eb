#include "codegen/cpu/PanelTiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace gemma::codegen {

PanelTiles::PanelTiles(KernelBuilder &b, kernel::ContractOp op)
    : b(b), op(op), act(b.viewOf(op, op.getAct())), weight(b.viewOf(op, op.getWeight())),
      out(b.viewOf(op, op.getOut())), pair(op.getPair() ? 2 : 1) {}

void PanelTiles::findPanels() {
  Value block = op.getBlock() ? b.values.lookup(op.getBlock()) : b.index(0);
  panelsOfBlock = int64_t(op.getPanels()) / pair;
  int64_t panelsOfWeight = weight.dim(0) / pair;
  firstPanel = b.mul(block, panelsOfBlock);
  endPanel = b.add(firstPanel, b.index(panelsOfBlock));
  if (panelsOfWeight % panelsOfBlock)
    endPanel = b.minimum(endPanel, b.index(panelsOfWeight));
}

void PanelTiles::forPanels(PanelTile tile,
                           llvm::function_ref<void(PanelTile, Value panel, int64_t column)> emit) {
  Value groupsEnd = endPanel;
  if (tile.panels > 1)
    groupsEnd =
        b.add(firstPanel, b.mul(b.floorDiv(b.sub(endPanel, firstPanel), tile.panels), tile.panels));
  auto emitGroups = [&](PanelTile part, Value begin, Value end) {
    b.loop(begin, end, part.panels, [&](Value panel) {
      for (int64_t vector = 0; vector < panelVectors(); vector += part.vectors)
        emit(part, panel, vector * lanes);
    });
  };
  emitGroups(tile, firstPanel, groupsEnd);
  // Only the last block can hold a number of panels that the tile does not divide.
  if (tile.panels > 1 && (weight.dim(0) / pair) % panelsOfBlock % tile.panels)
    emitGroups({tile.rows, 1, tile.vectors}, groupsEnd, endPanel);
}

SmallVector<Value> PanelTiles::weightPanels(PanelTile tile, Value panel) {
  SmallVector<Value> panels;
  Value first = b.mul(panel, pair);
  for (int64_t p = 0; p < tile.panels * pair; ++p)
    panels.push_back(b.add(first, b.index(p)));
  return panels;
}

void PanelTiles::finish(PanelTile tile, ArrayRef<Value> rows, Value panel, Value column,
                        ArrayRef<Value> sums) {
  int64_t columns = tile.panels * pair * tile.vectors;
  for (int64_t r = 0; r < tile.rows; ++r)
    for (int64_t p = 0; p < tile.panels; ++p)
      for (int64_t v = 0; v < tile.vectors; ++v) {
        SmallVector<Value> arguments;
        for (int64_t half = 0; half < pair; ++half)
          arguments.push_back(sums[size_t(r * columns + (p * pair + half) * tile.vectors + v)]);
        Value result = b.inlineOnVectors(op.getEpilogue().front(), arguments, lanes).front();
        Value first =
            b.add(b.add(b.mul(b.add(panel, b.index(p)), panelColumns), column), b.index(v * lanes));
        store(rows[size_t(r)], first, result);
      }
}

void PanelTiles::store(Value row, Value column, Value result) {
  int64_t columns = out.dim(1);
  if (columns == weight.dim(0) / pair * panelColumns)
    return b.storeVector(out, {row, column}, result);
  Value whole = arith::CmpIOp::create(b, arith::CmpIPredicate::sle, b.add(column, b.index(lanes)),
                                      b.index(columns));
  b.when(whole, [&] { b.storeVector(out, {row, column}, result); });
  Value cut = arith::XOrIOp::create(b, whole, b.integer(b.getI1Type(), 1));
  b.when(cut, [&] {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      Value at = b.add(column, b.index(lane));
      b.when(b.less(at, b.index(columns)),
             [&] { b.storeScalar(out, {row, at}, b.extract(result, lane)); });
    }
  });
}

} // namespace gemma::codegen
