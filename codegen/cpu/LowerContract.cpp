// kernel.contract -> register tiles: for each panel group of the block and each row tile one loop
// over k with an accumulator register for every (row, 16 / lanes of a panel), then the epilogue on
// registers.
//
// Every output has one accumulator and adds its products in ascending k, whatever the tile, so a
// result does not depend on how rows and panels were cut.
#include "codegen/cpu/Lowering.h"
#include "codegen/cpu/PanelTiles.h"
#include "codegen/cpu/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace gemma::codegen {
namespace {

class ContractLowering : PanelTiles {
public:
  ContractLowering(KernelBuilder &b, kernel::ContractOp op) : PanelTiles(b, op) {}

  void run() {
    if (!check())
      return;
    findPanels();

    // The widest tile takes most rows, halving ones the rest.
    Value row = b.index(0), rows = b.extent(op.getExtent());
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

private:
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

  /// Whether accumulators, a step's weights and a broadcast activation fit the registers. Without
  /// fused multiply-add (and so with instructions of two operands) a sum ends up in the register of
  /// its product: products and copies take three more, two sums in a row twice the accumulators.
  bool fits(int64_t rows, int64_t columns) const {
    int64_t halves = packed16 ? 2 : 1;
    int64_t temporaries = rows == 1 ? 3 : columns * halves + 1;
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
    for (int64_t rows = 1; rows <= std::max<int64_t>(op.getRowTile(), 1); ++rows) {
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
      for (int64_t half = 0; half < length; ++half) {
        Value at = packed16 ? b.add(b.mul(k, 2), b.index(half)) : k;
        for (int64_t r = 0; r < tile.rows; ++r) {
          Value a = b.broadcast(b.loadScalar(act, {rowIndices[r], at}, compute), lanes);
          for (int64_t c = 0; c < columns; ++c)
            next[r * columns + c] = b.mulAdd(a, weights[half][c], next[r * columns + c]);
        }
      }
      return next;
    };

    int64_t stepK = packed16 ? 2 : 1, steps = depth / stepK;
    // Without fused multiply-add the unrolled steps' sums move between registers, and spill.
    int64_t unroll = !b.target.fma ? 1 : tile.rows == 1 ? 4 : 2, unrolled = steps / unroll * unroll;
    SmallVector<Value> sums(tile.rows * columns, b.constant(b.vec(compute, lanes), 0.0));
    sums = b.loop(b.index(0), b.index(unrolled), unroll, sums, [&](Value k, ValueRange carried) {
      SmallVector<Value> next(carried);
      for (int64_t u = 0; u < unroll; ++u) {
        Value ku = b.add(k, b.index(u));
        prefetch(panelIndices, ku, column, tile.vectors);
        next = step(ku, stepK, next);
      }
      return next;
    });
    for (int64_t k = unrolled; k < steps; ++k)
      sums = step(b.index(k), stepK, sums);
    // An odd depth: the weight's padding is zero, but the activation beyond the row is not ours.
    if (depth % stepK)
      sums = step(b.index(steps), 1, sums);

    finish(tile, rowIndices, panel, column, sums);
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
    int64_t elementBytes =
        int64_t(weight.element().getIntOrFloatBitWidth()) / 8 * (packed16 ? 2 : 1);
    int64_t lineColumns = 64 / elementBytes;
    Value ahead = b.add(k, b.index(prefetchBytes / (panelColumns * elementBytes)));
    for (Value panel : panels)
      for (int64_t c = column / lineColumns * lineColumns; c < column + vectors * lanes;
           c += lineColumns) {
        SmallVector<Value> at = {panel, ahead, b.index(c)};
        if (packed16)
          at.push_back(b.index(0));
        memref::PrefetchOp::create(b, weight.memory, at, /*isWrite=*/false, /*localityHint=*/2,
                                   /*isDataCache=*/true);
      }
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
