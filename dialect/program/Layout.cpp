#include "dialect/program/Layout.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace gemma::program {

/// Rows of the panels that hold quantised weights, and consecutive k of one of them.
static constexpr int64_t kPanelRows = 16, kQuad = 4;

bool isQuantised(Type element) {
  return element.isSignlessInteger(8) || element.isSignlessInteger(4);
}

MemRefType packedType(RankedTensorType logical, LayoutAttr layout) {
  Type element = logical.getElementType();
  int64_t panel = layout.getPanel(), kpack = layout.getKpack();
  auto interleave = static_cast<uint64_t>(layout.getInterleave());
  if (isQuantised(element) != (kpack == kQuad))
    return {};
  if (panel == 0)
    return MemRefType::get(logical.getShape(), element);
  if (logical.getRank() != 2)
    return {};
  auto rows = static_cast<uint64_t>(logical.getDimSize(0));
  auto columns = static_cast<uint64_t>(logical.getDimSize(1));
  if (rows % interleave != 0)
    return {};
  auto panels = static_cast<int64_t>(
      interleave * llvm::divideCeil(rows / interleave, static_cast<uint64_t>(panel)));
  if (kpack == kQuad) {
    auto groups = static_cast<int64_t>(llvm::divideCeil(columns, uint64_t(kGroupColumns)));
    int64_t bytes = kGroupColumns * element.getIntOrFloatBitWidth() / 8;
    return MemRefType::get({panels, groups, bytes / kQuad, kPanelRows, kQuad},
                           IntegerType::get(logical.getContext(), 8));
  }
  auto groups = static_cast<int64_t>(llvm::divideCeil(columns, static_cast<uint64_t>(kpack)));
  if (panel == 8)
    return MemRefType::get({groups, panels, panel, kpack}, element);
  SmallVector<int64_t> shape = {panels, groups, panel};
  if (kpack > 1)
    shape.push_back(kpack);
  return MemRefType::get(shape, element);
}

MemRefType scalesType(MemRefType packed) {
  return MemRefType::get({packed.getDimSize(0), packed.getDimSize(1), kPanelRows},
                         Float16Type::get(packed.getContext()));
}

int64_t scalesOffset(MemRefType packed) {
  return static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(packed.getNumElements()), 64));
}

SmallVector<AffineExpr> packedIndices(LayoutAttr layout, AffineExpr row, AffineExpr k) {
  assert(layout.getInterleave() == 1 && "rows of two halves");
  int64_t panel = layout.getPanel(), kpack = layout.getKpack();
  if (panel == 0)
    return {row, k};
  if (panel == 8)
    return {k.floorDiv(kpack), row.floorDiv(panel), row % panel, k % kpack};
  if (kpack == kQuad)
    return {row.floorDiv(panel), k.floorDiv(kGroupColumns), (k % kGroupColumns).floorDiv(kQuad),
            row % panel, k % kQuad};
  SmallVector<AffineExpr> indices = {row.floorDiv(panel), k.floorDiv(kpack), row % panel};
  if (kpack > 1)
    indices.push_back(k % kpack);
  return indices;
}

} // namespace gemma::program
