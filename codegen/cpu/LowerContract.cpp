// kernel.contract -> register tiles: for each panel group of the block and each row tile one loop
// over k with an accumulator register for every (row, 16 / lanes of a panel), then the epilogue on
// registers. Many rows go in blocks (PanelBlocks.h), their operands widened beforehand.
//
// Every output has one accumulator and adds its products in ascending k, whatever the tile, so a
// result does not depend on how rows and panels were cut.
#include "codegen/cpu/Lowering.h"
#include "codegen/cpu/PanelBlocks.h"
#include "codegen/cpu/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace gemma::codegen {
namespace {

class ContractLowering : PanelBlocks {
public:
  ContractLowering(KernelBuilder &b, kernel::ContractOp op) : PanelBlocks(b, op) {
    for (MemRefType block : op.getScratchBlocks())
      blocks.push_back(b.scratch(block));
  }

  void run() {
    if (!check())
      return;
    findPanels();
    Value rows = b.extent(op.getExtent());
    emitRows(rows, depth, op.isBlocked() ? weights().dim(1) : 0, [&] { emitDirect(rows); });
  }

private:
  void emitDirect(Value rows) {
    // The widest tile takes most rows, halving ones the rest.
    Value row = b.index(0);
    for (int64_t tileRows = bestRows(); tileRows > 0; tileRows /= 2) {
      PanelTile tile = bestTile(tileRows, panelsOfBlock);
      Value count = b.mul(b.floorDiv(b.sub(rows, row), tileRows), tileRows);
      Value end = b.add(row, count);
      forPanels(tile, [&](PanelTile part, Value panel, int64_t column) {
        b.loop(row, end, part.rows, [&](Value at) { emitTile(part, at, panel, column); });
      });
      row = end;
    }
  }

  bool check() {
    Block &epilogue = op.getEpilogue().front();
    auto weightType = weight.type;
    unsigned rank = weightType.getRank();
    packed16 = rank == 4;
    bool types = epilogue.getNumArguments() == static_cast<unsigned>(pair) &&
                 llvm::all_of(epilogue.getArgumentTypes(),
                              [](Type type) { return type.isF32() || type.isF64(); }) &&
                 epilogue.getTerminator()->getNumOperands() == 1;
    bool layout = (rank == 3 || (rank == 4 && weightType.getDimSize(3) == 2 &&
                                 weightType.getElementTypeBitWidth() == 16)) &&
                  weightType.getDimSize(2) == panelColumns && weightType.hasStaticShape() &&
                  weightType.getDimSize(0) % pair == 0 && op.getPanels() % pair == 0 &&
                  op.getPanels() > 0;
    bool matrices = act.type.getRank() == 2 && act.strides().back() == 1 &&
                    out.type.getRank() == 2 && out.strides().back() == 1;
    if (!types || !layout || !matrices) {
      b.fail(op,
             "expected act [rows, K] and out [rows, N], a weight packed in panels of 16 rows and "
             "an epilogue on f32 or f64 sums");
      return false;
    }
    depth = act.dim(1);
    int64_t packedDepth = weightType.getDimSize(1) * (packed16 ? 2 : 1);
    if (packedDepth < depth || packedDepth > depth + 1) {
      b.fail(op, "expected a weight of depth " + Twine(depth) + ", got " + Twine(packedDepth));
      return false;
    }
    compute = epilogue.getArgument(0).getType();
    lanes = std::min(b.lanes(compute), panelColumns);
    return true;
  }

  /// Whether accumulators, a step's weights and a broadcast activation fit the registers; of one
  /// row a step's weights are used once, but 16-bit ones wait for their second half. Without fused
  /// multiply-add (and so with instructions of two operands) a sum ends up in the register of its
  /// product: products and copies take three more, two sums in a row twice the accumulators.
  bool fits(int64_t rows, int64_t columns) const {
    int64_t halves = packed16 ? 2 : 1;
    int64_t temporaries = rows == 1 ? 3 : columns * halves + 1;
    if (packed16) // pairs of activations, the mask that splits them
      temporaries += rows == 1 && b.target.fma ? columns + 1 : 2;
    int64_t sums = rows * columns;
    if (!b.target.fma)
      return sums * halves + temporaries + 3 <= b.target.registers;
    return sums + temporaries <= b.target.registers;
  }

  /// The tile of that many rows with fewest loads a product.
  PanelTile bestTile(int64_t rows, int64_t panelsOfBlock) const {
    PanelTile best = {rows, 1, 1};
    for (int64_t vectors = 1; vectors <= panelVectors(); vectors *= 2)
      for (int64_t panels = 1; panels <= panelsOfBlock; ++panels) {
        bool whole = vectors == panelVectors() && panelsOfBlock % panels == 0;
        if ((panels == 1 || whole) && fits(rows, panels * pair * vectors) &&
            panels * vectors > best.panels * best.vectors)
          best = {rows, panels, vectors};
      }
    return best;
  }

  int64_t bestRows() {
    int64_t best = 1;
    double fewest = 1e9;
    int64_t most = op.isBlocked() ? mostDirectRows : int64_t(op.getRowTile());
    for (int64_t rows = 1; rows <= most; ++rows) {
      if (!fits(rows, pair))
        continue;
      PanelTile tile = bestTile(rows, op.getPanels() / pair);
      double columns = tile.panels * tile.vectors * pair;
      double loads = 1 / columns + 1.0 / rows;
      if (loads < fewest) {
        fewest = loads;
        best = rows;
      }
    }
    return best;
  }

  void emitTile(PanelTile tile, Value row, Value panel, int64_t column) {
    SmallVector<Value> rowIndices;
    for (int64_t r = 0; r < tile.rows; ++r)
      rowIndices.push_back(b.add(row, b.index(r)));
    SmallVector<Value> panelIndices = weightPanels(tile, panel);
    int64_t columns = panelIndices.size() * tile.vectors;

    // One step: k, or the two k that 16-bit weights keep side by side.
    auto step = [&](Value k, int64_t length, ValueRange sums) {
      SmallVector<Value> next(sums);
      SmallVector<SmallVector<Value>> weights(length);
      for (Value p : panelIndices)
        for (int64_t v = 0; v < tile.vectors; ++v)
          loadWeights(p, k, column + v * lanes, weights);
      for (int64_t r = 0; r < tile.rows; ++r)
        for (auto [half, a] : llvm::enumerate(loadActivations(rowIndices[r], k, length)))
          for (int64_t c = 0; c < columns; ++c)
            next[r * columns + c] = b.mulAdd(a, weights[half][c], next[r * columns + c]);
      return next;
    };

    int64_t stepK = packed16 ? 2 : 1, steps = depth / stepK;
    // Without fused multiply-add the unrolled steps' sums move between registers, and spill.
    int64_t unroll = !b.target.fma ? 1 : tile.rows == 1 ? 4 : 2, unrolled = steps / unroll * unroll;
    SmallVector<Value> sums(tile.rows * columns, b.constant(b.vec(compute, lanes), 0.0));
    sums = b.unrolledLoop(b.index(0), b.index(unrolled), unroll, sums,
                          [&](Value k, ValueRange carried) {
                            prefetch(panelIndices, k, column, tile.vectors);
                            return step(k, stepK, carried);
                          });
    for (int64_t k = unrolled; k < steps; ++k)
      sums = step(b.index(k), stepK, sums);
    // An odd depth: the weight's padding is zero, but the activation beyond the row is not ours.
    if (depth % stepK)
      sums = step(b.index(steps), 1, sums);

    finish(tile, rowIndices, panel, b.index(column), sums);
  }

  /// The activations of a step, broadcast: those of the weights' type are two halves of 32 bits
  /// too.
  SmallVector<Value> loadActivations(Value row, Value k, int64_t length) {
    Value first = packed16 ? b.mul(k, 2) : k;
    if (length == 2 && act.element() == weight.element()) {
      Value pair = vector::LoadOp::create(b, b.vec(b.getIntegerType(16), 2), act.memory,
                                          ValueRange{row, first});
      Value bits = b.extract(vector::BitCastOp::create(b, b.vec(b.getI32Type(), 1), pair), 0);
      Value pairs = b.broadcast(bits, lanes);
      return {widen(lowHalf(pairs)), widen(highHalf(pairs))};
    }
    SmallVector<Value> activations;
    for (int64_t half = 0; half < length; ++half)
      activations.push_back(
          b.broadcast(b.loadScalar(act, {row, b.add(first, b.index(half))}, compute), lanes));
    return activations;
  }

  /// Appends the weights of `lanes` columns at k to weights[0], and those at k + 1 to weights[1].
  void loadWeights(Value panel, Value k, int64_t column,
                   MutableArrayRef<SmallVector<Value>> weights) {
    if (!packed16) {
      weights[0].push_back(b.loadVector(weight, {panel, k, b.index(column)}, lanes, compute));
      return;
    }
    Type i32 = b.getI32Type();
    Value halves = vector::LoadOp::create(b, b.vec(b.getIntegerType(16), 2 * lanes), weight.memory,
                                          ValueRange{panel, k, b.index(column), b.index(0)});
    Value pairs = vector::BitCastOp::create(b, b.vec(i32, lanes), halves);
    for (auto [half, list] : llvm::enumerate(weights))
      list.push_back(widen(half ? highHalf(pairs) : lowHalf(pairs)));
  }

  // bf16 at its place in the upper half of an f32 needs no further step.
  Value lowHalf(Value pairs) {
    if (weight.element().isBF16())
      return arith::ShLIOp::create(b, pairs, b.integer(pairs.getType(), 16));
    return arith::AndIOp::create(b, pairs, b.integer(pairs.getType(), 0xffff));
  }
  Value highHalf(Value pairs) {
    if (weight.element().isBF16())
      return arith::AndIOp::create(b, pairs, b.integer(pairs.getType(), int32_t(0xffff0000)));
    return arith::ShRUIOp::create(b, pairs, b.integer(pairs.getType(), 16));
  }
  Value widen(Value bits) {
    Value f32 = weight.element().isBF16()
                    ? Value(arith::BitcastOp::create(b, b.vec(b.getF32Type(), lanes), bits))
                    : emitHalfBitsToF32(b, bits, weight.element());
    return compute.isF32() ? f32 : Value(arith::ExtFOp::create(b, b.vec(compute, lanes), f32));
  }

  /// The cache lines that the loop will read `prefetchBytes` later; beyond the panel lies the next.
  void prefetch(ArrayRef<Value> panels, Value k, int64_t column, int64_t vectors) {
    Value ahead = b.add(k, b.index(prefetchBytes / (panelColumns * stepBytes())));
    for (Value panel : panels)
      fetch(panel, ahead, column, vectors);
  }

  /// Fetches the cache lines of a step of a panel.
  void fetch(Value panel, Value k, int64_t column, int64_t vectors) {
    int64_t lineColumns = 64 / stepBytes();
    for (int64_t c = column / lineColumns * lineColumns; c < column + vectors * lanes;
         c += lineColumns) {
      SmallVector<Value> at = {panel, k, b.index(c)};
      if (packed16)
        at.push_back(b.index(0));
      b.prefetch(weight, at);
    }
  }

  /// Of a column: one k, or two side by side.
  int64_t stepBytes() const {
    return int64_t(weight.element().getIntOrFloatBitWidth()) / 8 * (packed16 ? 2 : 1);
  }

  //===--- blocks ---===//

  const View &acts() const { return blocks[1]; }
  const View &weights() const { return blocks[2]; }

  bool fitsPrepared(int64_t rows, int64_t columns) const override {
    // Without fused multiply-add a product takes a register.
    return rows * columns + columns + (b.target.fma ? 1 : 2) <= b.target.registers;
  }

  void prepareRows(Value firstRow, Value rows, Depth k) override {
    Value whole = k.count, end = b.add(k.begin, k.count);
    if (depth % lanes)
      whole = b.mul(b.floorDiv(k.count, lanes), lanes);
    b.loop(b.index(0), rows, 1, [&](Value row) {
      Value source = b.add(firstRow, row);
      b.loop(b.index(0), whole, lanes, [&](Value at) {
        fetchRow(act, source, b.add(k.begin, at));
        b.storeVector(acts(), {row, at},
                      b.loadVector(act, {source, b.add(k.begin, at)}, lanes, compute));
      });
      if (depth % lanes)
        b.loop(b.add(k.begin, whole), end, 1, [&](Value at) {
          b.storeScalar(acts(), {row, b.sub(at, k.begin)},
                        b.loadScalar(act, {source, at}, compute));
        });
    });
  }

  void preparePanel(Value weightPanel, int64_t place, Depth k) override {
    int64_t stepK = packed16 ? 2 : 1; // beyond an odd depth the weight's padding is zero
    b.loop(b.index(0), b.ceilDiv(k.count, stepK), 1, [&](Value step) {
      Value at = b.add(b.floorDiv(k.begin, stepK), step);
      for (int64_t column = 0; column < panelColumns; column += lanes) {
        SmallVector<SmallVector<Value>> loaded(stepK);
        loadWeights(weightPanel, at, column, loaded);
        for (int64_t half = 0; half < stepK; ++half)
          b.storeVector(weights(),
                        {b.index(place), b.add(b.mul(step, stepK), b.index(half)), b.index(column)},
                        loaded[size_t(half)].front());
      }
      // While tiles are computed, what is prepared next.
      fetch(b.add(weightPanel, b.index(1)), at, 0, panelVectors());
    });
  }

  void addProducts(const BlockTile &tile, Depth k) override {
    int64_t columns = tile.panels * tile.vectors;
    SmallVector<Value> sums;
    for (int64_t r = 0; r < tile.rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        sums.push_back(loadSum(tile, r, c));
    auto addStep = [&](Value at, ValueRange carried) {
      SmallVector<Value> next(carried), loaded;
      for (int64_t p = 0; p < tile.panels; ++p)
        for (int64_t v = 0; v < tile.vectors; ++v)
          loaded.push_back(b.loadVector(
              weights(), {b.index(p), at, b.index(tile.column + v * lanes)}, lanes, compute));
      for (int64_t r = 0; r < tile.rows; ++r) {
        Value x =
            b.broadcast(b.loadScalar(acts(), {b.add(tile.row, b.index(r)), at}, compute), lanes);
        for (int64_t c = 0; c < columns; ++c) {
          Value &sum = next[size_t(r * columns + c)];
          sum = b.mulAdd(x, loaded[size_t(c)], sum);
        }
      }
      return next;
    };
    // Without fused multiply-add the unrolled steps' sums move between registers, and spill.
    int64_t unroll = b.target.fma ? 4 : 1;
    Value whole = depth % unroll ? b.mul(b.floorDiv(k.count, unroll), unroll) : k.count;
    sums = b.unrolledLoop(b.index(0), whole, unroll, sums, addStep);
    if (depth % unroll)
      sums = b.loop(whole, k.count, 1, sums, addStep);
    for (int64_t r = 0; r < tile.rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        storeSum(tile, r, c, sums[size_t(r * columns + c)]);
  }

  bool packed16 = false; ///< two k side by side
  int64_t depth = 0;
  Type compute;
};

} // namespace

void lowerContract(KernelBuilder &b, kernel::ContractOp op) {
  if (op.isQuantised())
    return lowerQuantizedContract(b, op);
  ContractLowering(b, op).run();
}

} // namespace gemma::codegen
