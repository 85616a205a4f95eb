// kernel.contract of quantised weights -> for each tile of rows and panels one loop over groups of
// 32 k: integer sums of the group, exact, which one product and one sum in f32 an output add up in
// ascending order. So an output does not depend on the tile.
//
// Where the products want activations in another form (IntegerDots), few rows are expanded into
// scratch once for all panels that a worker computes. Many rows go in blocks (PanelBlocks.h):
// integer sums of a group are in registers then, those in f32 in memory, where each is used once a
// group.
#include "codegen/cpu/IntegerDots.h"
#include "codegen/cpu/Lowering.h"
#include "codegen/cpu/PanelBlocks.h"
#include "dialect/program/Layout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace gemma::codegen {
namespace {

constexpr int64_t groupColumns = program::kGroupColumns;

class QuantizedContractLowering : PanelBlocks {
public:
  QuantizedContractLowering(KernelBuilder &b, kernel::ContractOp op)
      : PanelBlocks(b, op), scales(b.viewOf(op, op.getWeightScales())),
        actScales(b.viewOf(op, op.getActScales())), starts(b.viewOf(op, op.getActStarts())),
        stored(weight.dim(2)),
        dots(b, stored == IntegerDots::quads ? 8 : 4, act.element().getIntOrFloatBitWidth()) {
    lanes = dots.lanes();
    SmallVector<MemRefType> types = op.getScratchBlocks();
    if (op.isBlocked()) {
      blockDepth = types[2].getDimSize(1) * groupColumns;
      if (!dots.wantsPairs()) {
        types[1] =
            MemRefType::get({types[1].getDimSize(0), 2 * types[1].getDimSize(1)}, b.getI8Type());
        SmallVector<int64_t> shape(types[3].getShape());
        shape[0] *= shape[2] / dots.steps(); // bytes are half of the words that were planned
        shape[2] = dots.steps();
        types[3] = MemRefType::get(shape, b.getI8Type());
      }
    }
    for (MemRefType type : types)
      blocks.push_back(b.scratch(type));
  }

  void run() {
    findPanels();
    Value rows = b.extent(op.getExtent());
    emitRows(rows, act.dim(1), blockDepth, [&] { emitDirect(rows); });
  }

private:
  void emitDirect(Value rows) {
    if (!needsExpansion())
      return emitRowTiles(b.index(0), rows, act, b.index(0));
    // Last in scratch; planned for every instruction set, whether it needs it or not.
    const View &pairs = blocks.back();
    int64_t most = pairs.dim(0);
    Value block = op.getBlock() ? b.values.lookup(op.getBlock()) : Value();
    b.loop(b.index(0), rows, most, [&](Value first) {
      Value end = b.minimum(rows, b.add(first, b.index(most)));
      // They stay there for the worker's other blocks, unless other rows take their place.
      Value tooMany = b.less(b.index(most), rows);
      b.when(arith::OrIOp::create(b, b.isFirstOfWorker(block), tooMany), [&] {
        b.loop(first, end, 1, [&](Value row) {
          expand(row, b.index(0), b.index(act.dim(1)), pairs, b.sub(row, first));
        });
      });
      emitRowTiles(first, end, pairs, first);
    });
  }

  /// Rows [row, end), whose codes are in `codes` from row - `offset` on.
  void emitRowTiles(Value row, Value end, const View &codes, Value offset) {
    for (int64_t tileRows = mostRows(); tileRows > 0; tileRows /= 2) {
      Value whole = b.add(row, b.mul(b.floorDiv(b.sub(end, row), tileRows), tileRows));
      PanelTile tile = bestTile(tileRows);
      b.loop(row, whole, tileRows, [&](Value first) {
        forPanels(tile, [&](PanelTile part, Value panel, int64_t column) {
          emitTile(part, first, panel, column, codes, offset);
        });
      });
      row = whole;
    }
  }

  /// Sums of a tile's columns in i32 stay in registers with a quad's weights and activations; those
  /// in f32 are used once a group.
  int64_t mostRows() {
    int64_t most = b.target.registers == 32 && !op.isBlocked() ? 6 : mostDirectRows;
    return std::min(most, int64_t(op.getRowTile()));
  }

  PanelTile bestTile(int64_t rows) const {
    int64_t columns = rows == 1 ? 4 : 2;
    PanelTile tile = {rows, 1, std::min(panelVectors(), columns / pair)};
    int64_t panels = columns / (pair * tile.vectors);
    if (tile.vectors == panelVectors() && panelsOfBlock % panels == 0)
      tile.panels = panels;
    return tile;
  }

  bool needsExpansion() const { return dots.wantsPairs() && act.element().isInteger(8); }

  /// i8 codes of a row from `begin` on -> i16 in the order of pairs.
  void expand(Value row, Value begin, Value count, const View &into, Value place) {
    auto bytes = b.vec(b.getI8Type(), groupColumns);
    auto words = b.vec(b.getIntegerType(16), groupColumns / 2);
    auto both = b.vec(b.getI32Type(), IntegerDots::quads);
    SmallVector<int64_t> order;
    for (int64_t quad = 0; quad < IntegerDots::quads; ++quad)
      order.append({quad, quad + IntegerDots::quads});
    b.loop(b.index(0), count, groupColumns, [&](Value column) {
      Value codes = vector::BitCastOp::create(
          b, words,
          vector::LoadOp::create(b, bytes, act.memory, ValueRange{row, b.add(begin, column)}));
      Value eight = b.integer(words, 8);
      Value even = arith::ShRSIOp::create(b, arith::ShLIOp::create(b, codes, eight), eight);
      Value odd = arith::ShRSIOp::create(b, codes, eight);
      Value mixed = vector::ShuffleOp::create(b, vector::BitCastOp::create(b, both, even),
                                              vector::BitCastOp::create(b, both, odd), order);
      Value expanded =
          vector::BitCastOp::create(b, b.vec(b.getIntegerType(16), groupColumns), mixed);
      vector::StoreOp::create(b, expanded, into.memory, ValueRange{place, column});
    });
  }

  void emitTile(PanelTile tile, Value firstRow, Value panel, int64_t column, const View &codes,
                Value offset) {
    SmallVector<Value> rows, codeRows;
    for (int64_t r = 0; r < tile.rows; ++r) {
      rows.push_back(b.add(firstRow, b.index(r)));
      codeRows.push_back(b.sub(rows.back(), offset));
    }
    SmallVector<Value> panels = weightPanels(tile, panel);
    int64_t columns = int64_t(panels.size()) * tile.vectors;

    auto addGroup = [&](Value group, ValueRange sums) {
      Value ahead = b.add(group, b.index(prefetchBytes / (stored * 64)));
      if (column == 0) // beyond the panel lies the next
        for (Value p : panels)
          fetchScales(p, ahead);
      SmallVector<Value> begins, integers;
      for (Value row : rows) {
        Value start = memref::LoadOp::create(b, starts.memory, ValueRange{row, group});
        begins.push_back(start);
        integers.append(size_t(columns), dots.begin(start));
      }
      auto addLine = [&](Value j, ValueRange before) {
        SmallVector<Value> after(before), bytes;
        for (Value p : panels) {
          if (column == 0) // a line at a time: memory is asked all the while
            fetchLine(p, ahead, j);
          for (int64_t v = 0; v < tile.vectors; ++v)
            bytes.push_back(loadBytes(p, group, j, column + v * lanes));
        }
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
      int64_t unroll = tile.rows == 1 ? stored / 2 : 1;
      integers = b.unrolledLoop(b.index(0), b.index(stored), unroll, integers, addLine);
      SmallVector<Value> next, columnScales;
      for (Value p : panels)
        for (int64_t v = 0; v < tile.vectors; ++v)
          columnScales.push_back(loadScales(p, group, column + v * lanes));
      for (int64_t r = 0; r < tile.rows; ++r) {
        Value scale = b.broadcast(
            memref::LoadOp::create(b, actScales.memory, ValueRange{rows[size_t(r)], group}), lanes);
        for (int64_t c = 0; c < columns; ++c) {
          Value sum = dots.finish(integers[size_t(r * columns + c)], begins[size_t(r)]);
          next.push_back(
              addScaled(sum, columnScales[size_t(c)], scale, sums[size_t(r * columns + c)]));
        }
      }
      return next;
    };
    SmallVector<Value> sums(size_t(tile.rows * columns),
                            b.constant(b.vec(b.getF32Type(), lanes), 0.0));
    sums = b.loop(b.index(0), b.index(weight.dim(1)), 1, sums, addGroup);

    finish(tile, rows, panel, b.index(column), sums);
  }

  /// What a group adds to an output: `before` + float(sum) · (column's scale · row's scale).
  Value addScaled(Value sum, Value columnScale, Value rowScale, Value before) {
    Value real = arith::SIToFPOp::create(b, b.vec(b.getF32Type(), lanes), sum);
    return b.mulAdd(real, arith::MulFOp::create(b, columnScale, rowScale), before);
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

  void fetchLine(Value panel, Value group, Value line) {
    b.prefetch(weight, {panel, group, line, b.index(0), b.index(0)});
  }
  void fetchScales(Value panel, Value group) { b.prefetch(scales, {panel, group, b.index(0)}); }

  //===--- blocks ---===//

  const View &codesOfBlock() const { return blocks[1]; } ///< i16, or bytes of code + 128
  const View &actScalesOfBlock() const { return blocks[2]; }
  const View &weightsOfBlock() const { return blocks[3]; }     ///< [place, group, step, bytes]
  const View &scalesOfBlock() const { return blocks[4]; }      ///< f32
  const View &correctionsOfBlock() const { return blocks[5]; } ///< [place, group, column] of i32

  /// Integer sums, a step's weights and activations, and a product.
  bool fitsPrepared(int64_t rows, int64_t columns) const override {
    return rows * columns + columns + 2 <= b.target.registers;
  }

  void prepareRows(Value firstRow, Value rows, Depth k) override {
    b.loop(b.index(0), rows, 1, [&](Value row) {
      Value source = b.add(firstRow, row);
      b.loop(b.index(0), k.count, 512 / act.element().getIntOrFloatBitWidth(), // cache lines
             [&](Value at) { fetchRow(act, source, b.add(k.begin, at)); });
      if (needsExpansion())
        expand(source, k.begin, k.count, codesOfBlock(), row);
      else
        b.loop(b.index(0), k.count, groupColumns, [&](Value at) {
          Value codes = vector::LoadOp::create(b, b.vec(act.element(), groupColumns), act.memory,
                                               ValueRange{source, b.add(k.begin, at)});
          vector::StoreOp::create(b, dots.preparedActivations(codes), codesOfBlock().memory,
                                  ValueRange{row, at});
        });
      Value groups = groupsOf(k.count), firstGroup = groupsOf(k.begin);
      Value whole = b.mul(b.floorDiv(groups, lanes), lanes);
      auto copyScales = [&](Value begin, Value end, int64_t width) {
        b.loop(begin, end, width, [&](Value group) {
          Value copied =
              b.loadVector(actScales, {source, b.add(firstGroup, group)}, width, b.getF32Type());
          b.storeVector(actScalesOfBlock(), {row, group}, copied);
        });
      };
      copyScales(b.index(0), whole, lanes);
      copyScales(whole, groups, 1);
    });
  }

  void preparePanel(Value weightPanel, int64_t place, Depth k) override {
    Value at = b.index(place), next = b.add(weightPanel, b.index(1));
    b.loop(b.index(0), groupsOf(k.count), 1, [&](Value local) {
      Value group = b.add(groupsOf(k.begin), local);
      for (int64_t j = 0; j < stored; ++j) // while tiles are computed
        fetchLine(next, group, b.index(j));
      fetchScales(next, group);
      for (int64_t column = 0; column < panelColumns; column += lanes) {
        b.storeVector(scalesOfBlock(), {at, local, b.index(column)},
                      loadScales(weightPanel, group, column));
        SmallVector<Value> steps;
        for (int64_t j = 0; j < stored; ++j) {
          Value bytes = loadBytes(weightPanel, group, b.index(j), column);
          for (int64_t half = 0; half < IntegerDots::quads / stored; ++half)
            for (int64_t part = 0; part < dots.parts(); ++part) {
              int64_t step = (j + half * stored) * dots.parts() + part;
              steps.push_back(dots.prepared(bytes, half, part));
              Value ready =
                  vector::BitCastOp::create(b, b.vec(b.getI8Type(), 4 * lanes), steps.back());
              vector::StoreOp::create(b, ready, weightsOfBlock().memory,
                                      ValueRange{at, local, b.index(step), b.index(4 * column)});
            }
        }
        if (!dots.wantsPairs())
          vector::StoreOp::create(b, dots.correction(steps), correctionsOfBlock().memory,
                                  ValueRange{at, local, b.index(column)});
      }
    });
  }

  void addProducts(const BlockTile &tile, Depth k) override {
    int64_t columns = tile.panels * tile.vectors;
    auto place = [&](int64_t r, int64_t c) { return size_t(r * columns + c); };
    // Of the tile's columns what `view`[panel, group, column..] has.
    auto ofColumns = [&](const View &view, Value group) {
      SmallVector<Value> values;
      for (int64_t p = 0; p < tile.panels; ++p)
        for (int64_t v = 0; v < tile.vectors; ++v)
          values.push_back(vector::LoadOp::create(
              b, b.vec(view.element(), lanes), view.memory,
              ValueRange{b.index(p), group, b.index(tile.column + v * lanes)}));
      return values;
    };
    SmallVector<Value> rows, sums;
    for (int64_t r = 0; r < tile.rows; ++r) {
      rows.push_back(b.add(tile.row, b.index(r)));
      for (int64_t c = 0; c < columns; ++c)
        sums.push_back(loadSum(tile, r, c));
    }
    auto addStep = [&](Value group, Value step, ValueRange before) {
      SmallVector<Value> after(before), weights;
      for (int64_t p = 0; p < tile.panels; ++p)
        for (int64_t v = 0; v < tile.vectors; ++v)
          weights.push_back(loadPrepared(p, group, step, tile.column + v * lanes));
      Value code = b.add(b.mul(group, groupColumns), b.mul(step, dots.codesOfStep()));
      for (int64_t r = 0; r < tile.rows; ++r) {
        Value x = dots.activations(codesOfBlock(), rows[size_t(r)], code, 0);
        for (int64_t c = 0; c < columns; ++c)
          after[place(r, c)] = dots.addPrepared(after[place(r, c)], weights[size_t(c)], x);
      }
      return after;
    };
    // While a group's integer sums fill the registers, those in f32 wait on the stack.
    auto addGroup = [&](Value group, ValueRange before) {
      SmallVector<Value> begins{size_t(columns), Value()}, integers, after;
      if (!dots.wantsPairs())
        begins = ofColumns(correctionsOfBlock(), group);
      for (int64_t r = 0; r < tile.rows; ++r)
        for (Value begin : begins)
          integers.push_back(dots.beginPrepared(begin));
      // A loop: in one block LLVM computes sum by sum, weights waiting on the stack.
      int64_t unroll = b.target.fma ? 2 : 1;
      integers = b.unrolledLoop(
          b.index(0), b.index(dots.steps()), unroll, integers,
          [&](Value step, ValueRange carried) { return addStep(group, step, carried); });
      SmallVector<Value> columnScales = ofColumns(scalesOfBlock(), group);
      for (int64_t r = 0; r < tile.rows; ++r) {
        Value scale = b.broadcast(memref::LoadOp::create(b, actScalesOfBlock().memory,
                                                         ValueRange{rows[size_t(r)], group}),
                                  lanes);
        for (int64_t c = 0; c < columns; ++c)
          after.push_back(addScaled(dots.total(integers[place(r, c)]), columnScales[size_t(c)],
                                    scale, before[place(r, c)]));
      }
      return after;
    };
    sums = b.loop(b.index(0), groupsOf(k.count), 1, sums, addGroup);
    for (int64_t r = 0; r < tile.rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        storeSum(tile, r, c, sums[place(r, c)]);
  }

  Value groupsOf(Value columns) { return b.floorDiv(columns, groupColumns); }

  Value loadBytes(Value panel, Value group, Value line, int64_t column) {
    return vector::LoadOp::create(b, b.vec(b.getI8Type(), 4 * lanes), weight.memory,
                                  ValueRange{panel, group, line, b.index(column), b.index(0)});
  }

  /// As `dots` multiplies it: bytes, or words.
  Value loadPrepared(int64_t place, Value group, Value step, int64_t column) {
    Value bytes =
        vector::LoadOp::create(b, b.vec(b.getI8Type(), 4 * lanes), weightsOfBlock().memory,
                               ValueRange{b.index(place), group, step, b.index(4 * column)});
    if (!dots.wantsPairs())
      return bytes;
    return vector::BitCastOp::create(b, b.vec(b.getIntegerType(16), 2 * lanes), bytes);
  }

  View scales, actScales, starts;
  int64_t stored; ///< lines of 64 bytes that hold a group of a panel
  int64_t blockDepth = 0;
  IntegerDots dots;
};

} // namespace

void lowerQuantizedContract(KernelBuilder &b, kernel::ContractOp op) {
  QuantizedContractLowering(b, op).run();
}

} // namespace gemma::codegen
