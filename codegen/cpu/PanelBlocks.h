// The order in which a host contraction of many rows reads its operands, whatever its weights are
// made of (after Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"):
//
//   for each block of rows                  their sums are in scratch
//     for each block of k                   activations are prepared: they stay in the L2 cache
//       for each panel, or two              weights are prepared: they stay in the L1 cache
//         for each tile of rows             sums are in registers: loaded, added to, stored
//     for each row                          the epilogue
//
// What is prepared is in the form that the products want, so the innermost loop only loads and
// multiplies. Between blocks of k a sum goes through memory as it is: every output still has one
// accumulator, which adds its products in ascending k.
#pragma once

#include "codegen/cpu/PanelTiles.h"

namespace gemma::codegen {

class PanelBlocks : protected PanelTiles {
protected:
  /// So few rows are not worth preparing weights for.
  static constexpr int64_t mostDirectRows = 4;

  PanelBlocks(KernelBuilder &b, kernel::ContractOp op) : PanelTiles(b, op) {}
  virtual ~PanelBlocks() = default;

  /// A block of k.
  struct Depth {
    Value begin, count;
  };
  /// A tile within a block of rows.
  struct BlockTile : PanelTile {
    Value row;       ///< of the block of rows
    Value sumColumn; ///< of the sums
    int64_t column;  ///< of the panels
  };

  /// Emits both ways to compute the rows [0, rows): `direct`, and in blocks of `depth` of k.
  void emitRows(Value rows, int64_t depth, int64_t blockDepth, llvm::function_ref<void()> direct);

  /// Whether the registers hold a tile of prepared operands.
  virtual bool fitsPrepared(int64_t rows, int64_t columns) const = 0;
  virtual void prepareRows(Value firstRow, Value rows, Depth k) = 0;
  /// `place`: which panel of a tile.
  virtual void preparePanel(Value weightPanel, int64_t place, Depth k) = 0;
  /// Adds the products of a block of k to a tile's sums. The tile may have more rows than were
  /// prepared: what is in their place is never looked at.
  virtual void addProducts(const BlockTile &tile, Depth k) = 0;

  /// Fetches what row `row` + 4 of `view` has at a column: rows of a block of k are too short for
  /// the processor to see where they go on.
  void fetchRow(const View &view, Value row, Value column);

  /// Loads a sum of a tile, or stores it: register `column` of a row.
  Value loadSum(const BlockTile &tile, int64_t row, int64_t column);
  void storeSum(const BlockTile &tile, int64_t row, int64_t column, Value value);

  llvm::SmallVector<View> blocks; ///< of scratch, as the op lists them: of a blocked op first sums

private:
  PanelTile bestPreparedTile();
  void emitBlock(PanelTile tile, Value firstRow, Value rows, int64_t depth, int64_t blockDepth);
  void emitPanels(PanelTile tile, Value begin, Value end, Value rows, Depth k);
  void clearSums(Value rows);
  void finishRow(Value row, Value blockRow);
  llvm::SmallVector<Value> placeOfSum(const BlockTile &tile, int64_t row, int64_t column);
  mlir::VectorType sumRegister();
};

} // namespace gemma::codegen
