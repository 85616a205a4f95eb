#include "codegen/cpu/PanelBlocks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace gemma::codegen {

void PanelBlocks::emitRows(Value rows, int64_t depth, int64_t blockDepth,
                           function_ref<void()> direct) {
  if (!op.isBlocked())
    return direct();
  Value few = b.less(rows, b.index(mostDirectRows + 1));
  b.when(few, direct);
  b.when(arith::XOrIOp::create(b, few, b.integer(b.getI1Type(), 1)), [&] {
    auto rowsOfBlock = int64_t(op.getRowTile());
    PanelTile tile = bestPreparedTile();
    b.loop(b.index(0), rows, rowsOfBlock, [&](Value firstRow) {
      Value count = b.minimum(b.sub(rows, firstRow), b.index(rowsOfBlock));
      emitBlock(tile, firstRow, count, depth, blockDepth);
    });
  });
}

/// The tile with fewest loads a product, of those that divide a block of rows.
PanelTile PanelBlocks::bestPreparedTile() {
  PanelTile best = {1, 1, 1};
  double fewest = 1e9;
  int64_t mostPanels = std::min<int64_t>(int64_t(op.getPanels()), 2);
  for (int64_t rows = 1; rows <= 12; ++rows)
    for (int64_t panels = 1; panels <= mostPanels; ++panels)
      for (int64_t vectors = 1; vectors <= panelVectors(); vectors *= 2) {
        bool whole = vectors == panelVectors() && int64_t(op.getPanels()) % panels == 0;
        int64_t columns = panels * vectors;
        double loads = 1.0 / double(rows) + 1.0 / double(columns);
        if (int64_t(op.getRowTile()) % rows || (panels > 1 && !whole) || loads >= fewest ||
            !fitsPrepared(rows, columns))
          continue;
        fewest = loads;
        best = {rows, panels, vectors};
      }
  return best;
}

void PanelBlocks::emitBlock(PanelTile tile, Value firstRow, Value rows, int64_t depth,
                            int64_t blockDepth) {
  clearSums(rows);
  Value begin = b.mul(firstPanel, pair), end = b.mul(endPanel, pair);
  Value whole = b.add(begin, b.mul(b.floorDiv(b.sub(end, begin), tile.panels), tile.panels));
  b.loop(b.index(0), b.index(depth), blockDepth, [&](Value first) {
    Value count = b.index(blockDepth);
    if (depth % blockDepth)
      count = b.minimum(b.sub(b.index(depth), first), count);
    prepareRows(firstRow, rows, {first, count});
    emitPanels(tile, begin, whole, rows, {first, count});
    // Only the last block can hold a number of panels that the tile does not divide.
    if (weight.dim(0) % int64_t(op.getPanels()) % tile.panels)
      emitPanels({tile.rows, 1, tile.vectors}, whole, end, rows, {first, count});
  });
  b.loop(b.index(0), rows, 1, [&](Value row) { finishRow(b.add(firstRow, row), row); });
}

void PanelBlocks::emitPanels(PanelTile tile, Value begin, Value end, Value rows, Depth k) {
  // Rows that fill no tile take one more, or half of one, whatever its other rows hold.
  int64_t half = tile.rows / 2;
  Value whole = b.mul(b.floorDiv(b.add(rows, b.index(tile.rows - 1 - half)), tile.rows), tile.rows);
  Value firstOfBlock = b.mul(firstPanel, pair);
  b.loop(begin, end, tile.panels, [&](Value panel) {
    for (int64_t p = 0; p < tile.panels; ++p)
      preparePanel(b.add(panel, b.index(p)), p, k);
    Value sumColumn = b.mul(b.sub(panel, firstOfBlock), panelColumns);
    for (int64_t column = 0; column < panelColumns; column += tile.vectors * lanes) {
      Value at = b.add(sumColumn, b.index(column));
      b.loop(b.index(0), whole, tile.rows,
             [&](Value row) { addProducts({tile, row, at, column}, k); });
      if (half)
        b.loop(whole, rows, half, [&](Value row) {
          addProducts({{half, tile.panels, tile.vectors}, row, at, column}, k);
        });
    }
  });
}

void PanelBlocks::fetchRow(const View &view, Value row, Value column) {
  constexpr int64_t ahead = 4;
  b.prefetch(view, {b.add(row, b.index(ahead)), column});
}

VectorType PanelBlocks::sumRegister() { return b.vec(blocks.front().element(), lanes); }

void PanelBlocks::clearSums(Value rows) {
  Value zero = b.constant(sumRegister(), 0.0);
  b.loop(b.index(0), rows, 1, [&](Value row) {
    b.loop(b.index(0), b.index(blocks.front().dim(1)), lanes, [&](Value column) {
      vector::StoreOp::create(b, zero, blocks.front().memory, ValueRange{row, column});
    });
  });
}

void PanelBlocks::finishRow(Value row, Value blockRow) {
  // One register of outputs at a time: epilogues of more, side by side, have too many values.
  Value columns = b.mul(b.sub(endPanel, firstPanel), panelColumns);
  b.loop(b.index(0), columns, lanes, [&](Value at) {
    Value place = b.floorDiv(at, panelColumns), column = b.mod(at, panelColumns);
    Value first = b.add(b.mul(place, pair * panelColumns), column);
    SmallVector<Value> sums;
    for (int64_t half = 0; half < pair; ++half)
      sums.push_back(
          vector::LoadOp::create(b, sumRegister(), blocks.front().memory,
                                 ValueRange{blockRow, b.add(first, b.index(half * panelColumns))}));
    finish({1, 1, 1}, row, b.add(firstPanel, place), column, sums);
  });
}

SmallVector<Value> PanelBlocks::placeOfSum(const BlockTile &tile, int64_t row, int64_t column) {
  return {b.add(tile.row, b.index(row)), b.add(tile.sumColumn, b.index(column * lanes))};
}

Value PanelBlocks::loadSum(const BlockTile &tile, int64_t row, int64_t column) {
  return vector::LoadOp::create(b, sumRegister(), blocks.front().memory,
                                placeOfSum(tile, row, column));
}

void PanelBlocks::storeSum(const BlockTile &tile, int64_t row, int64_t column, Value value) {
  vector::StoreOp::create(b, value, blocks.front().memory, placeOfSum(tile, row, column));
}

} // namespace gemma::codegen
