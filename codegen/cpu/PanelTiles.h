// How a host contraction cuts its outputs, whatever its weights are made of: the panels of a block
// into tiles of registers, and the epilogue on a tile's sums.
#pragma once

#include "codegen/cpu/KernelBuilder.h"

namespace gemma::codegen {

/// The outputs that one loop over k computes.
struct PanelTile {
  int64_t rows;
  int64_t panels;  ///< output panels: each is one weight panel, or a pair
  int64_t vectors; ///< registers of each panel: all of its 16 columns, or some
};

class PanelTiles {
protected:
  using Value = mlir::Value;
  static constexpr int64_t panelColumns = 16;
  static constexpr int64_t prefetchBytes = 1024; ///< ahead of the weights in use

  PanelTiles(KernelBuilder &b, kernel::ContractOp op);

  int64_t panelVectors() const { return panelColumns / lanes; }
  /// Emits which output panels the block has.
  void findPanels();
  /// Calls `emit(tile, panel, column)` in loops over the block's panels, for each `tile.vectors`
  /// registers of a panel. The tile is cut to one panel where a block's number leaves a rest.
  void forPanels(PanelTile tile,
                 llvm::function_ref<void(PanelTile, Value panel, int64_t column)> emit);
  /// The weight panels of a tile that begins at an output panel.
  llvm::SmallVector<Value> weightPanels(PanelTile tile, Value panel);
  /// The epilogue of a tile and its stores; `sums` row by row, panel by panel.
  void finish(PanelTile tile, llvm::ArrayRef<Value> rows, Value panel, Value column,
              llvm::ArrayRef<Value> sums);

  KernelBuilder &b;
  kernel::ContractOp op;
  View act, weight, out;
  int64_t pair;      ///< weight panels of an output panel
  int64_t lanes = 0; ///< columns of a register
  int64_t panelsOfBlock = 0;
  Value firstPanel, endPanel; ///< output panels of the block

private:
  /// Stores the columns that out has: the panels may have more.
  void store(Value row, Value column, Value result);
};

} // namespace gemma::codegen
