// kernel.topk: its verifier and its scratch.
#include "dialect/kernel/CoreOps.h"

using namespace mlir;
using namespace gemma::kernel;

LogicalResult TopKOp::verify() {
  // topk_c1
  if (!isRowsOfFloats(getX().getType(), 2))
    return emitOpError() << "expected x of [R, V] floats, got " << getX().getType();
  auto x = cast<MemRefType>(getX().getType());
  auto k = static_cast<int64_t>(getK());
  if (k < 1 || k > x.getDimSize(1))
    return emitOpError() << "expected k in [1, " << x.getDimSize(1) << "], got " << k;
  // topk_c2
  auto values = dyn_cast<MemRefType>(getValues().getType());
  auto ids = cast<MemRefType>(getIds().getType());
  if (!isRowsOfFloats(values, 2) || values.getDimSize(1) != k ||
      values.getElementType() != x.getElementType())
    return emitOpError() << "expected values [R, " << k << "] of " << x.getElementType() << ", got "
                         << getValues().getType();
  if (ids.getRank() != 2 || ids.getDimSize(1) != k)
    return emitOpError() << "expected ids [R, " << k << "], got " << ids;
  // topk_c3
  auto best = getBest() ? cast<MemRefType>(getBest().getType()) : MemRefType();
  if (best && (k != 1 || best.getRank() != 3 || best.isDynamicDim(1) || best.getDimSize(2) != 2 ||
               !best.getLayout().isIdentity()))
    return emitOpError() << "expected best of [R, G, 2] and k 1, got " << best << " and k " << k;
  return success();
}

SmallVector<MemRefType> TopKOp::getScratchBlocks() {
  Type element = cast<MemRefType>(getX().getType()).getElementType();
  Builder b(getContext());
  auto k = static_cast<int64_t>(getK());
  return {MemRefType::get({k}, element.isF64() ? element : b.getF32Type()),
          MemRefType::get({k}, b.getI32Type())};
}
