#include "passes/lower/GroupLowering.h"

#include "dialect/program/Layout.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace gemma::passes {

/// First dimension of a memory whose size is known only at run time.
static constexpr int64_t kDynamic = ShapedType::kDynamic;

Value VariantMemory::ref(StringRef symbol, StringRef lane, MemRefType type) {
  Value &value = made[(symbol + "/" + lane).str()];
  if (!value)
    value = program::RefOp::create(builder, builder.getUnknownLoc(), type,
                                   FlatSymbolRefAttr::get(builder.getContext(), symbol),
                                   lane.empty() ? StringAttr() : builder.getStringAttr(lane));
  return value;
}

Value VariantMemory::weight(StringRef symbol) {
  auto weight = module.lookupSymbol<program::WeightOp>(symbol);
  return ref(symbol, "", cast<MemRefType>(*weight.getPacked()));
}

Value VariantMemory::weightScales(StringRef symbol) {
  auto weight = module.lookupSymbol<program::WeightOp>(symbol);
  return ref(symbol, "scales",
             program::scalesType(cast<MemRefType>(weight.getPackedAttr().getValue())));
}

Value VariantMemory::cacheLane(StringRef symbol, StringRef lane) {
  auto cache = module.lookupSymbol<program::CacheOp>(symbol);
  return ref(symbol, lane, cache.laneType(lane));
}

Value VariantMemory::tableLane(program::TableOp table, StringRef lane) {
  return ref(table.getSymName(), lane,
             MemRefType::get({512, int64_t(table.getActive())}, table.getElem()));
}

Value VariantMemory::input(StringRef name) {
  Value &value = made[("input/" + name).str()];
  if (!value) {
    SmallVector<int64_t> shape = {kDynamic};
    if (name == "page_table")
      shape.push_back(llvm::divideCeil(limits.maxContext, 16));
    value = program::InputOp::create(builder, builder.getUnknownLoc(),
                                     MemRefType::get(shape, builder.getI32Type()), name);
  }
  return value;
}

Value VariantMemory::buffer(Location loc, MemRefType type, kernel::Extent extent,
                            StringRef output) {
  if (!output.empty())
    return program::OutputOp::create(builder, loc, type, output);
  return program::BufferOp::create(builder, loc, type,
                                   builder.getStringAttr(kernel::stringifyExtent(extent)),
                                   IntegerAttr(), UnitAttr());
}

Value VariantMemory::workspace(Location loc, MemRefType type,
                               std::optional<kernel::Extent> extent) {
  StringAttr name;
  if (extent)
    name = builder.getStringAttr(kernel::stringifyExtent(*extent));
  return program::BufferOp::create(builder, loc, type, name, IntegerAttr(), builder.getUnitAttr());
}

Value VariantMemory::tickets(int64_t count) {
  Value &value = made["tickets/" + std::to_string(count)];
  if (!value)
    value = program::TicketsOp::create(builder, builder.getUnknownLoc(),
                                       MemRefType::get({count}, builder.getI32Type()));
  return value;
}

TensorView traceView(Value tensor) {
  if (auto slice = tensor.getDefiningOp<tensor::ExtractSliceOp>()) {
    TensorView view = traceView(slice.getSource());
    view.offset += slice.getStaticOffsets().back();
    return view;
  }
  if (auto expand = tensor.getDefiningOp<tensor::ExpandShapeOp>())
    return traceView(expand.getSrc());
  if (auto collapse = tensor.getDefiningOp<tensor::CollapseShapeOp>())
    return traceView(collapse.getSrc());
  return {tensor, 0};
}

} // namespace gemma::passes
