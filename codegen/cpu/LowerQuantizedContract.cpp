// kernel.contract of quantised weights -> for each tile of rows and panels one loop over groups of
// 32 k: integer sums of the group, exact, which one product and one sum in f32 an output add up in
// ascending order. So an output does not depend on the tile.
//
// Rows are the outer loop: where the products want activations in another form (IntegerDots), a
// tile of rows is expanded into scratch once for all panels of the block.
#include "codegen/cpu/IntegerDots.h"
#include "codegen/cpu/Lowering.h"
#include "codegen/cpu/PanelTiles.h"
#include "dialect/program/Layout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace gemma::codegen {
namespace {

constexpr int64_t groupColumns = program::kGroupColumns;

class QuantizedContractLowering : PanelTiles {
public:
  QuantizedContractLowering(KernelBuilder &b, kernel::ContractOp op)
      : PanelTiles(b, op), scales(b.viewOf(op, op.getWeightScales())),
        actScales(b.viewOf(op, op.getActScales())), starts(b.viewOf(op, op.getActStarts())),
        stored(weight.dim(2)),
        dots(b, stored == IntegerDots::quads ? 8 : 4, act.element().getIntOrFloatBitWidth()) {
    lanes = dots.lanes();
  }

  void run() {
    // Planned for every instruction set, whether it needs it or not.
    for (MemRefType block : op.getScratchBlocks())
      pairs = b.scratch(block);
    findPanels();

    Value row = b.index(0), rows = b.extent(op.getExtent());
    for (int64_t tileRows = mostRows(); tileRows > 0; tileRows /= 2) {
      Value end = b.add(row, b.mul(b.floorDiv(b.sub(rows, row), tileRows), tileRows));
      b.loop(row, end, tileRows, [&](Value first) { emitRows(first, bestTile(tileRows)); });
      row = end;
    }
  }

private:
  /// Sums of a tile's columns in i32 stay in registers with a quad's weights and activations; those
  /// in f32 are used once a group.
  int64_t mostRows() {
    return std::min<int64_t>(b.target.registers == 32 ? 6 : 4,
                             std::max<int64_t>(int64_t(op.getRowTile()), 1));
  }

  PanelTile bestTile(int64_t rows) const {
    int64_t columns = rows == 1 ? 4 : 2;
    PanelTile tile = {rows, 1, std::min(panelVectors(), columns / pair)};
    int64_t panels = columns / (pair * tile.vectors);
    if (tile.vectors == panelVectors() && panelsOfBlock % panels == 0)
      tile.panels = panels;
    return tile;
  }

  void emitRows(Value first, PanelTile tile) {
    if (needsExpansion())
      for (int64_t r = 0; r < tile.rows; ++r)
        expand(b.add(first, b.index(r)), r);
    forPanels(tile, [&](PanelTile part, Value panel, int64_t column) {
      emitTile(part, first, panel, column);
    });
  }

  bool needsExpansion() const { return dots.wantsPairs() && act.element().isInteger(8); }

  /// i8 codes of a row -> i16 in the order of pairs.
  void expand(Value row, int64_t place) {
    auto bytes = b.vec(b.getI8Type(), groupColumns);
    auto words = b.vec(b.getIntegerType(16), groupColumns / 2);
    auto both = b.vec(b.getI32Type(), IntegerDots::quads);
    SmallVector<int64_t> order;
    for (int64_t quad = 0; quad < IntegerDots::quads; ++quad)
      order.append({quad, quad + IntegerDots::quads});
    b.loop(b.index(0), b.index(act.dim(1)), groupColumns, [&](Value column) {
      Value codes = vector::BitCastOp::create(
          b, words, vector::LoadOp::create(b, bytes, act.memory, ValueRange{row, column}));
      Value eight = b.integer(words, 8);
      Value even = arith::ShRSIOp::create(b, arith::ShLIOp::create(b, codes, eight), eight);
      Value odd = arith::ShRSIOp::create(b, codes, eight);
      Value mixed = vector::ShuffleOp::create(b, vector::BitCastOp::create(b, both, even),
                                              vector::BitCastOp::create(b, both, odd), order);
      Value expanded =
          vector::BitCastOp::create(b, b.vec(b.getIntegerType(16), groupColumns), mixed);
      vector::StoreOp::create(b, expanded, pairs.memory, ValueRange{b.index(place), column});
    });
  }

  void emitTile(PanelTile tile, Value firstRow, Value panel, int64_t column) {
    SmallVector<Value> rows, codeRows;
    for (int64_t r = 0; r < tile.rows; ++r) {
      rows.push_back(b.add(firstRow, b.index(r)));
      codeRows.push_back(needsExpansion() ? b.index(r) : rows.back());
    }
    const View &codes = needsExpansion() ? pairs : act;
    SmallVector<Value> panels = weightPanels(tile, panel);
    int64_t columns = int64_t(panels.size()) * tile.vectors;

    auto addGroup = [&](Value group, ValueRange sums) {
      if (column == 0)
        prefetch(panels, group);
      SmallVector<Value> begins, integers;
      for (Value row : rows) {
        Value start = memref::LoadOp::create(b, starts.memory, ValueRange{row, group});
        begins.push_back(start);
        integers.append(size_t(columns), dots.begin(start));
      }
      auto addLine = [&](Value j, ValueRange before) {
        SmallVector<Value> after(before), bytes;
        for (Value p : panels)
          for (int64_t v = 0; v < tile.vectors; ++v)
            bytes.push_back(vector::LoadOp::create(
                b, b.vec(b.getI8Type(), 4 * lanes), weight.memory,
                ValueRange{p, group, j, b.index(column + v * lanes), b.index(0)}));
        Value first = b.add(b.mul(group, groupColumns), b.mul(j, 4));
        for (int64_t half = 0; half < IntegerDots::quads / stored; ++half) {
          Value at = b.add(first, b.index(4 * half * stored));
          for (int64_t part = 0; part < dots.parts(); ++part) {
            SmallVector<Value> weights;
            for (Value whole : bytes)
              weights.push_back(dots.weights(whole, half, part));
            for (int64_t r = 0; r < tile.rows; ++r) {
              Value x = dots.activations(codes, codeRows[size_t(r)], at, part);
              for (int64_t c = 0; c < columns; ++c) {
                Value &sum = after[size_t(r * columns + c)];
                sum = dots.add(sum, weights[size_t(c)], x);
              }
            }
          }
        }
        return after;
      };
      // In one block all sums of a group are one expression, which LLVM computes sum by sum,
      // weights and activations waiting on the stack.
      if (tile.rows == 1)
        for (int64_t j = 0; j < stored; ++j)
          integers = addLine(b.index(j), integers);
      else
        integers = b.loop(b.index(0), b.index(stored), 1, integers, addLine);
      SmallVector<Value> next, columnScales;
      for (Value p : panels)
        for (int64_t v = 0; v < tile.vectors; ++v)
          columnScales.push_back(loadScales(p, group, column + v * lanes));
      for (int64_t r = 0; r < tile.rows; ++r) {
        Value scale = b.broadcast(
            memref::LoadOp::create(b, actScales.memory, ValueRange{rows[size_t(r)], group}), lanes);
        for (int64_t c = 0; c < columns; ++c) {
          Value sum = dots.finish(integers[size_t(r * columns + c)], begins[size_t(r)]);
          Value real = arith::SIToFPOp::create(b, b.vec(b.getF32Type(), lanes), sum);
          Value both = arith::MulFOp::create(b, columnScales[size_t(c)], scale);
          next.push_back(b.mulAdd(real, both, sums[size_t(r * columns + c)]));
        }
      }
      return next;
    };
    SmallVector<Value> sums(size_t(tile.rows * columns),
                            b.constant(b.vec(b.getF32Type(), lanes), 0.0));
    sums = b.loop(b.index(0), b.index(weight.dim(1)), 1, sums, addGroup);

    finish(tile, rows, panel, column, sums);
  }

  /// f16 -> f32, exact.
  Value loadScales(Value panel, Value group, int64_t column) {
    SmallVector<Value> at = {panel, group, b.index(column)};
    if (!b.target.convertsHalves)
      return b.loadVector(scales, at, lanes, b.getF32Type());
    Value bits = vector::LoadOp::create(b, b.vec(b.getIntegerType(16), lanes), scales.memory, at);
    Value halves = arith::BitcastOp::create(b, b.vec(b.getF16Type(), lanes), bits);
    return arith::ExtFOp::create(b, b.vec(b.getF32Type(), lanes), halves);
  }

  /// What the loop will read `prefetchBytes` later; beyond the panel lies the next.
  void prefetch(ArrayRef<Value> panels, Value group) {
    Value ahead = b.add(group, b.index(prefetchBytes / (stored * 64)));
    auto line = [&](const View &view, ArrayRef<Value> at) {
      memref::PrefetchOp::create(b, view.memory, at, /*isWrite=*/false, /*localityHint=*/2,
                                 /*isDataCache=*/true);
    };
    for (Value panel : panels) {
      for (int64_t j = 0; j < stored; ++j)
        line(weight, {panel, ahead, b.index(j), b.index(0), b.index(0)});
      line(scales, {panel, ahead, b.index(0)});
    }
  }

  View scales, actScales, starts;
  View pairs;     ///< [row_tile, K] of i16
  int64_t stored; ///< lines of 64 bytes that hold a group of a panel
  IntegerDots dots;
};

} // namespace

void lowerQuantizedContract(KernelBuilder &b, kernel::ContractOp op) {
  QuantizedContractLowering(b, op).run();
}

} // namespace gemma::codegen
