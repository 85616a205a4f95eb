#include "dialect/program/Layout.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace gemma::program {

MemRefType packedType(RankedTensorType logical, LayoutAttr layout) {
  Type element = logical.getElementType();
  int64_t panel = layout.getPanel(), kpack = layout.getKpack();
  auto interleave = static_cast<uint64_t>(layout.getInterleave());
  if (panel == 0)
    return MemRefType::get(logical.getShape(), element);
  if (logical.getRank() != 2)
    return {};
  auto rows = static_cast<uint64_t>(logical.getDimSize(0));
  auto columns = static_cast<uint64_t>(logical.getDimSize(1));
  if (rows % interleave != 0)
    return {};
  auto panels = interleave * llvm::divideCeil(rows / interleave, static_cast<uint64_t>(panel));
  SmallVector<int64_t> shape = {
      static_cast<int64_t>(panels),
      static_cast<int64_t>(llvm::divideCeil(columns, static_cast<uint64_t>(kpack))), panel};
  if (kpack > 1)
    shape.push_back(kpack);
  return MemRefType::get(shape, element);
}

} // namespace gemma::program
