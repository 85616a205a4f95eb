// Row nodes: one gemma op -> one kernel.rows whose body is the op's formula.
#include "dialect/program/Layout.h"
#include "passes/lower/GroupLowering.h"
#include "passes/lower/RowMath.h"
#include "passes/lower/Storage.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace gemma::passes {

static int64_t width(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape().back();
}

RowInput GroupLowering::rowInput(Value tensor) { return rowSlice(tensor, 0, width(tensor)); }

RowInput GroupLowering::rowSlice(Value tensor, int64_t offset, int64_t count) {
  Place place = placeOf(tensor);
  assembler.markRead(place.memory);
  place.indices.back() = place.indices.back() + offset;
  return {place, RankedTensorType::get(count, numerics.getAccumulate())};
}

RowInput GroupLowering::vectorInput(StringRef weight, int64_t count) {
  return {{assembler.argument(memory.weight(weight), kernel::Access::Read),
           {expressions.getAffineDimExpr(2)}},
          RankedTensorType::get(count, numerics.getAccumulate())};
}

RowInput GroupLowering::scalarInput(StringRef weight) {
  return {{assembler.argument(memory.weight(weight), kernel::Access::Read),
           {expressions.getAffineConstantExpr(0)}},
          numerics.getAccumulate()};
}

LogicalResult GroupLowering::lowerRowNode(Operation *op) {
  Location loc = op->getLoc();
  // One row in, one row out, the formula in between.
  auto rows = [&](Value result, ArrayRef<RowInput> inputs,
                  llvm::function_ref<Value(RowMath &, ValueRange)> formula) {
    RowDomain box = domain(result);
    Place out = resultPlace(result);
    auto op =
        assembler.rows(loc, box, inputs, {out}, {},
                       [&](OpBuilder &b, Location bodyLoc, ValueRange args) -> SmallVector<Value> {
                         RowMath m(b, bodyLoc);
                         Value row = formula(m, args);
                         return {result == prepared ? m.padded(row, 64) : row};
                       });
    if (result == prepared)
      op.setSwizzled(ArrayRef<int64_t>{static_cast<int64_t>(inputs.size())});
    return success();
  };
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](ir::RmsNormOp norm) {
        int64_t n = width(norm.getX());
        double eps = norm.getEps().convertToDouble();
        return rows(norm.getY(), {rowInput(norm.getX()), vectorInput(norm.getWeight(), n)},
                    [&](RowMath &m, ValueRange a) {
                      return m.mul(m.mul(a[0], m.inverseRoot(a[0], 1.0 / n, eps)), a[1]);
                    });
      })
      .Case([&](ir::RmsNormOffsetOp norm) {
        int64_t n = width(norm.getX());
        double eps = norm.getEps().convertToDouble();
        return rows(norm.getY(), {rowInput(norm.getX()), vectorInput(norm.getWeight(), n)},
                    [&](RowMath &m, ValueRange a) {
                      Value weight = m.add(m.constant(a[1].getType(), 1.0), a[1]);
                      return m.mul(m.mul(a[0], m.inverseRoot(a[0], 1.0 / n, eps)), weight);
                    });
      })
      .Case([&](ir::RmsNormUnitOp norm) {
        int64_t n = width(norm.getX());
        double eps = norm.getEps().convertToDouble();
        return rows(norm.getY(), {rowInput(norm.getX())}, [&](RowMath &m, ValueRange a) {
          return m.mul(a[0], m.inverseRoot(a[0], 1.0 / n, eps));
        });
      })
      .Case([&](ir::L2NormOp norm) {
        double eps = norm.getEps().convertToDouble();
        return rows(norm.getY(), {rowInput(norm.getX())}, [&](RowMath &m, ValueRange a) {
          return m.mul(a[0], m.inverseRoot(a[0], 1.0, eps));
        });
      })
      .Case([&](ir::RmsNormGatedOp norm) {
        int64_t n = width(norm.getX());
        double eps = norm.getEps().convertToDouble();
        return rows(
            norm.getY(),
            {rowInput(norm.getX()), rowInput(norm.getZ()), vectorInput(norm.getWeight(), n)},
            [&](RowMath &m, ValueRange a) {
              Value normed = m.mul(a[2], m.mul(a[0], m.inverseRoot(a[0], 1.0 / n, eps)));
              return m.mul(normed, m.silu(a[1]));
            });
      })
      .Case([&](ir::SigmoidGateOp gate) {
        return rows(gate.getY(), {rowInput(gate.getX()), rowInput(gate.getGate())},
                    [&](RowMath &m, ValueRange a) { return m.mul(a[0], m.sigmoid(a[1])); });
      })
      .Case<ir::GeluMulOp, ir::SiluMulOp>([&](auto act) {
        int64_t n = width(act.getY());
        bool gelu = isa<ir::GeluMulOp>(op);
        return rows(act.getY(), {rowSlice(act.getX(), 0, n), rowSlice(act.getX(), n, n)},
                    [&](RowMath &m, ValueRange a) {
                      return m.mul(gelu ? m.geluTanh(a[0]) : m.silu(a[0]), a[1]);
                    });
      })
      .Case([&](ir::ResidualOp residual) {
        SmallVector<RowInput> inputs = {rowInput(residual.getX()), rowInput(residual.getH())};
        if (residual.getLayerScalar())
          inputs.push_back(scalarInput(*residual.getLayerScalar()));
        double r = residual.getR().convertToDouble();
        return rows(residual.getY(), inputs, [&](RowMath &m, ValueRange a) {
          Value sum = m.add(a[0], m.scale(a[1], r));
          return a.size() == 3 ? m.mul(m.splat(a[2], sum.getType()), sum) : sum;
        });
      })
      .Case([&](ir::EmbedOp embed) {
        auto weight = memory.module.lookupSymbol<program::WeightOp>(embed.getWeight());
        if (program::isQuantised(weight.getType().getElementType()))
          return lowerQuantisedEmbed(embed, weight);
        return lowerEmbed(embed), success();
      })
      .Case([&](ir::SelectRowsOp select) { return lowerSelectRows(select), success(); })
      .Case([&](ir::CacheAppendOp append) { return lowerAppend(append), success(); })
      .Case([&](ir::RopeOp rope) {
        lowerRope(op, rope.getX(), rope.getTheta().convertToDouble(), rope.getRot(),
                  rope.getDenom(), rope.getActive());
        return success();
      })
      .Case([&](ir::RopeStdOp rope) {
        lowerRope(op, rope.getX(), rope.getTheta().convertToDouble(), rope.getRot(), rope.getRot(),
                  int64_t(rope.getRot()) / 2);
        return success();
      })
      .Default([](Operation *other) { return other->emitOpError("has no row kernel"); });
}

void GroupLowering::lowerEmbed(ir::EmbedOp op) {
  extents[op.getY()] = kernel::Extent::T;
  Value table = memory.weight(op.getWeight());
  auto weight = memory.module.lookupSymbol<program::WeightOp>(op.getWeight());
  AffineExpr e = expressions.getAffineDimExpr(2), token = expressions.getAffineDimExpr(3);
  // A tied head's table is in panels.
  SmallVector<AffineExpr> indices = program::packedIndices(weight.getLayoutAttr(), token, e);
  int64_t n = width(op.getY());
  double mul = op.getMul().convertToDouble();
  RowInput row{{assembler.argument(table, kernel::Access::Read), indices},
               RankedTensorType::get(n, numerics.getAccumulate())};
  Value tokens = assembler.argument(memory.input("tokens"), kernel::Access::Read);
  RowDomain box = domain(op.getY());
  Place out = resultPlace(op.getY());
  kernel::RowsOp rows =
      assembler.rows(op.getLoc(), box, {row}, {out}, {tokens},
                     [&](OpBuilder &b, Location loc, ValueRange args) -> SmallVector<Value> {
                       return {RowMath(b, loc).scale(args[0], mul)};
                     });
  if (weight.getLayoutAttr().getPanel() == 8)
    rows.setSwizzled(ArrayRef<int64_t>{0});
}

void GroupLowering::lowerSelectRows(ir::SelectRowsOp op) {
  extents[op.getY()] = kernel::Extent::R;
  RowInput row = rowInput(op.getX());
  row.place.indices.front() = expressions.getAffineDimExpr(3); // the selected row
  Value rows = assembler.argument(memory.input("logit_rows"), kernel::Access::Read);
  RowDomain box = domain(op.getY());
  Place out = resultPlace(op.getY());
  assembler.rows(op.getLoc(), box, {row}, {out}, {rows},
                 [](OpBuilder &, Location, ValueRange args) { return SmallVector<Value>(args); });
}

void GroupLowering::lowerRope(Operation *op, Value x, double theta, int64_t rot, int64_t denom,
                              int64_t active) {
  Value result = op->getResult(0);
  int64_t half = rot / 2;
  SmallVector<RowInput> inputs = {rowInput(x)};
  SmallVector<Value> lookups;
  if (active > 0) {
    program::TableOp table = findTable(memory.module, theta, denom, active);
    AffineExpr e = expressions.getAffineDimExpr(2), position = expressions.getAffineDimExpr(3);
    auto lane = [&](StringRef name, AffineExpr row) {
      inputs.push_back(
          {{assembler.argument(memory.tableLane(table, name), kernel::Access::Read), {row, e}},
           RankedTensorType::get(active, numerics.getAccumulate())});
    };
    lane("cos_hi", position.floorDiv(512));
    lane("sin_hi", position.floorDiv(512));
    lane("cos_lo", position % 512);
    lane("sin_lo", position % 512);
    lookups.push_back(assembler.argument(memory.input("positions"), kernel::Access::Read));
  }
  RowDomain box = domain(result);
  Place out = resultPlace(result);
  assembler.rows(op->getLoc(), box, inputs, {out}, lookups,
                 [&](OpBuilder &b, Location loc, ValueRange a) -> SmallVector<Value> {
                   if (active == 0)
                     return {a[0]};
                   RowMath m(b, loc);
                   // angle = hi + lo: one complex product
                   Value cos = m.sub(m.mul(a[1], a[3]), m.mul(a[2], a[4]));
                   Value sin = m.add(m.mul(a[2], a[3]), m.mul(a[1], a[4]));
                   Value first = m.slice(a[0], 0, active), second = m.slice(a[0], half, active);
                   Value y = m.insert(m.sub(m.mul(first, cos), m.mul(second, sin)), a[0], 0);
                   return {m.insert(m.add(m.mul(second, cos), m.mul(first, sin)), y, half)};
                 });
}

void GroupLowering::lowerAppend(ir::CacheAppendOp op) {
  StringRef symbol = op.getCache().getType().getSymbol().getValue();
  auto cache = memory.module.lookupSymbol<program::CacheOp>(symbol);
  bool ring = cache.getKind() == program::CacheKind::Ring;
  SmallVector<RowInput> rows;
  SmallVector<Place> lanes, scales;
  AffineExpr h = expressions.getAffineDimExpr(1), e = expressions.getAffineDimExpr(2),
             page = expressions.getAffineDimExpr(3),
             slot = expressions.getAffineDimExpr(4) % int64_t(cache.getPage());
  auto write = [&](Value row, StringRef lane, SmallVector<AffineExpr> indices) {
    rows.push_back(rowInput(row));
    lanes.push_back({assembler.argument(memory.cacheLane(symbol, lane), kernel::Access::Write),
                     std::move(indices)});
    if (cache.hasScales())
      scales.push_back({assembler.argument(memory.cacheLane(symbol, (lane + "_scales").str()),
                                           kernel::Access::Write),
                        {page, h, slot}});
  };
  if (op.getK())
    write(op.getK(), "k", {page, h, e, slot});
  write(op.getV(), "v", {page, h, slot, e});
  SmallVector<Value> lookups = {
      assembler.argument(memory.input(ring ? "ring_pages" : "pages"), kernel::Access::Read),
      assembler.argument(memory.input("positions"), kernel::Access::Read)};
  llvm::append_range(lanes, scales);
  assembler.rows(op.getLoc(), domain(op.getV()), rows, lanes, lookups,
                 [&](OpBuilder &b, Location loc, ValueRange args) {
                   if (!cache.hasScales())
                     return SmallVector<Value>(args);
                   SmallVector<Value> codes, scalesOfRows;
                   for (Value row : args) {
                     auto [code, scale] = RowMath(b, loc).quantise(row);
                     codes.push_back(code);
                     scalesOfRows.push_back(scale);
                   }
                   llvm::append_range(codes, scalesOfRows);
                   return codes;
                 });
}

void GroupLowering::lowerTopK(ir::TopKOp op) {
  extents[op.getValues()] = extents[op.getIds()] = extentOf(op.getX());
  Place x = placeOf(op.getX());
  kernel::Extent extent = extentOf(op.getX());
  Value values = assembler.argument(yieldedMemory(op.getValues(), extent), kernel::Access::Write);
  Value ids = assembler.argument(yieldedMemory(op.getIds(), extent), kernel::Access::Write);
  Value best = memory.best.lookup(op.getX());
  if (best)
    best = assembler.argument(best, kernel::Access::Read);
  kernel::TopKOp::create(assembler.builder(), op.getLoc(), block, x.memory, best, values, ids,
                         op.getK());
}

} // namespace gemma::passes
