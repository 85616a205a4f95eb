// What quantised weights need of a kernel: activations as codes, rows of a quantised token table.
#include "dialect/program/Layout.h"
#include "passes/lower/GroupLowering.h"
#include "passes/lower/RowMath.h"

using namespace mlir;

namespace gemma::passes {

GroupLowering::Codes GroupLowering::quantise(Value x, program::WeightOp weight) {
  Builder types(group.getContext());
  Location loc = group.getLoc();
  kernel::Extent extent = extentOf(x);
  int64_t groups = cast<MemRefType>(weight.getPackedAttr().getValue()).getDimSize(1);
  int64_t zero = weight.getType().getElementTypeBitWidth() == 8 ? 128 : 8;
  auto ofRows = [&](int64_t rows, int64_t columns, Type element) {
    return MemRefType::get({rows, columns}, element);
  };
  Type code = numerics.getCodes(), f32 = types.getF32Type(), i32 = types.getI32Type();
  int64_t codesOfRow = groups * program::kGroupColumns;
  auto emit = [&](KernelAssembler &kernel, Value block, Value from, const Codes &to) {
    kernel::QuantizeOp::create(kernel.builder(), loc, block, from, to.codes, to.scales, to.starts,
                               extent, zero);
  };

  if (plan.hoistRows) { // few rows: every range of blocks quantises them for itself
    int64_t rows = extent == kernel::Extent::R ? plan.maxLogitRows : plan.maxTokens;
    Codes codes = {assembler.scratch(ofRows(rows, codesOfRow, code)),
                   assembler.scratch(ofRows(rows, groups, f32)),
                   assembler.scratch(ofRows(rows, groups, i32))};
    Value from = places.contains(x) ? places[x].memory
                                    : assembler.argument(matrixOf(x), kernel::Access::Read);
    emit(assembler, Value(), from, codes);
    return codes;
  }

  // No node is named: the launch computes none whole.
  auto buffer = [&](int64_t columns, Type element) {
    return memory.buffer(types.getUnknownLoc(), ofRows(ShapedType::kDynamic, columns, element),
                         extent);
  };
  Codes outside = {buffer(codesOfRow, code), buffer(groups, f32), buffer(groups, i32)};
  KernelAssembler before(memory.builder, loc);
  Value from = before.argument(matrixOf(x), kernel::Access::Read);
  Codes inside = {before.argument(outside.codes, kernel::Access::Write),
                  before.argument(outside.scales, kernel::Access::Write),
                  before.argument(outside.starts, kernel::Access::Write)};
  emit(before, before.enterGrid(loc), from, inside);
  kernel::FuncOp function =
      before.finish(memory.module, "quantize", AffineMap::get(0, 5, sizeOf(expressions, extent)));
  program::LaunchOp::create(memory.builder, types.getUnknownLoc(), function.getSymName(),
                            before.launchOperands());
  return {assembler.argument(outside.codes, kernel::Access::Read),
          assembler.argument(outside.scales, kernel::Access::Read),
          assembler.argument(outside.starts, kernel::Access::Read)};
}

LogicalResult GroupLowering::lowerQuantisedEmbed(ir::EmbedOp op, program::WeightOp weight) {
  extents[op.getY()] = kernel::Extent::T;
  auto codes = cast<MemRefType>(weight.getPackedAttr().getValue());
  int64_t n = op.getY().getType().getShape().back(),
          bits = weight.getType().getElementTypeBitWidth();
  constexpr int64_t groupColumns = program::kGroupColumns;
  if (bits == 4 && n % groupColumns != 0)
    return op.emitOpError() << "cannot read rows of " << n
                            << " 4-bit elements: expected a multiple of " << groupColumns;
  AffineExpr h = expressions.getAffineDimExpr(1), e = expressions.getAffineDimExpr(2),
             token = expressions.getAffineDimExpr(3);
  Type acc = numerics.getAccumulate(), i8 = codes.getElementType();
  Value table = assembler.argument(memory.weight(op.getWeight()), kernel::Access::Read);
  Value scales = assembler.argument(memory.weightScales(op.getWeight()), kernel::Access::Read);
  Value tokens = assembler.argument(memory.input("tokens"), kernel::Access::Read);
  RowDomain box = domain(op.getY());
  Place out = resultPlace(op.getY());
  double mul = op.getMul().convertToDouble();
  // Integer codes of bits `shift`.. of the bytes, as numbers: (u - zero) · scale · mul.
  auto decode = [&](OpBuilder &b, Location loc, Value bytes, int64_t shift, Value scale) {
    RowMath m(b, loc);
    auto row = cast<RankedTensorType>(bytes.getType());
    auto words = row.clone(b.getI32Type());
    auto number = [&](int64_t value) {
      return arith::ConstantOp::create(
          b, loc, DenseElementsAttr::get(words, b.getI32IntegerAttr(int32_t(value))));
    };
    Value code = arith::ExtUIOp::create(b, loc, words, bytes);
    if (shift)
      code = arith::ShRUIOp::create(b, loc, code, number(shift));
    if (bits == 4)
      code = arith::AndIOp::create(b, loc, code, number(15));
    code = arith::SubIOp::create(b, loc, code, number(bits == 8 ? 128 : 8));
    Value real = arith::SIToFPOp::create(b, loc, row.clone(acc), code);
    if (!isa<RankedTensorType>(scale.getType()))
      scale = m.splat(scale, real.getType());
    return m.scale(m.mul(real, scale), mul);
  };
  if (bits == 8) {
    RowInput row{{table, program::packedIndices(weight.getLayoutAttr(), token, e)},
                 RankedTensorType::get(n, i8)};
    RowInput scale{{scales, {token.floorDiv(16), e.floorDiv(groupColumns), token % 16}},
                   RankedTensorType::get(n, acc)};
    assembler.rows(op.getLoc(), box, {row, scale}, {out}, {tokens},
                   [&](OpBuilder &b, Location loc, ValueRange args) -> SmallVector<Value> {
                     return {decode(b, loc, args[0], 0, args[1])};
                   });
    return success();
  }
  // h counts groups; the halves of their bytes are two rows.
  constexpr int64_t half = groupColumns / 2;
  RowInput row{{table, {token.floorDiv(16), h, e.floorDiv(4), token % 16, e % 4}},
               RankedTensorType::get(half, i8)};
  RowInput scale{{scales, {token.floorDiv(16), h, token % 16}}, acc};
  SmallVector<AffineExpr> domainOf(box.map.getResults());
  domainOf[2] = expressions.getAffineConstantExpr(0);
  domainOf[3] = expressions.getAffineConstantExpr(n / groupColumns);
  box.map = AffineMap::get(box.map.getNumDims(), 5, domainOf, op.getContext());
  Place low = out, high = out;
  low.indices.back() = h * groupColumns + e;
  high.indices.back() = h * groupColumns + e + half;
  assembler.rows(op.getLoc(), box, {row, scale}, {low, high}, {tokens},
                 [&](OpBuilder &b, Location loc, ValueRange args) -> SmallVector<Value> {
                   return {decode(b, loc, args[0], 0, args[1]),
                           decode(b, loc, args[0], 4, args[1])};
                 });
  return success();
}

} // namespace gemma::passes
