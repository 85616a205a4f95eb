#include "dialect/gemma/Verify.h"

#include "llvm/ADT/SmallString.h"

using namespace mlir;
using namespace gemma::ir;

namespace gemma::ir {

int64_t dimOf(Type type, unsigned dim) { return cast<RankedTensorType>(type).getDimSize(dim); }

int64_t columnsOf(Type type) { return cast<RankedTensorType>(type).getShape().back(); }

LogicalResult verifyWeight(Operation *op, SymbolTableCollection &symbols, FlatSymbolRefAttr symbol,
                           ArrayRef<int64_t> shape) {
  auto weight = symbols.lookupNearestSymbolFrom<program::WeightOp>(op, symbol);
  if (!weight)
    return op->emitOpError() << "expected " << symbol << " to name a program.weight";
  auto type = cast<RankedTensorType>(weight.getType());
  if (type.getShape() == shape)
    return success();
  InFlightDiagnostic error = op->emitOpError() << "expected weight " << symbol << " of shape [";
  llvm::interleaveComma(shape, error);
  error << "], got " << type;
  error.attachNote(weight.getLoc()) << "the weight is here";
  return error;
}

program::CacheOp verifyCache(Operation *op, SymbolTableCollection &symbols, CacheType type,
                             int64_t heads, int64_t dim) {
  auto cache = symbols.lookupNearestSymbolFrom<program::CacheOp>(op, type.getSymbol());
  if (!cache) {
    op->emitOpError() << "expected " << type.getSymbol() << " to name a program.cache";
    return {};
  }
  if (static_cast<int64_t>(cache.getHeads()) == heads &&
      static_cast<int64_t>(cache.getDim()) == dim)
    return cache;
  InFlightDiagnostic error = op->emitOpError() << "expected cache " << type.getSymbol() << " with "
                                               << heads << " heads of " << dim << ", got "
                                               << cache.getHeads() << " of " << cache.getDim();
  error.attachNote(cache.getLoc()) << "the cache is here";
  return {};
}

LogicalResult verifySameRows(Operation *op, Type x, Type y) {
  int64_t xRows = dimOf(x, 0), yRows = dimOf(y, 0);
  if (xRows == yRows || ShapedType::isDynamic(xRows) || ShapedType::isDynamic(yRows))
    return success();
  return op->emitOpError() << "expected a result of " << xRows << " rows, got " << yRows;
}

LogicalResult verifySameElement(Operation *op, Type x, Type y) {
  Type expected = getElementTypeOrSelf(x), got = getElementTypeOrSelf(y);
  if (expected == got)
    return success();
  return op->emitOpError() << "expected a result of " << expected << ", got " << got;
}

static LogicalResult emitNumber(Operation *op, StringRef name, StringRef expected,
                                const APFloat &value) {
  SmallString<32> text;
  value.toString(text);
  return op->emitOpError() << "expected " << expected << " " << name << ", got " << text;
}

LogicalResult verifyPositive(Operation *op, StringRef name, const APFloat &value) {
  if (value.isFinite() && !value.isNegative() && !value.isZero())
    return success();
  return emitNumber(op, name, "a positive finite", value);
}

LogicalResult verifyFinite(Operation *op, StringRef name, const APFloat &value) {
  if (value.isFinite())
    return success();
  return emitNumber(op, name, "a finite", value);
}

LogicalResult reifyRowsOf(Value rows, Operation *op, OpBuilder &builder,
                          ReifiedRankedShapedTypeDims &shapes) {
  for (Type type : op->getResultTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return failure();
    SmallVector<OpFoldResult> shape = {tensor::getMixedSize(builder, op->getLoc(), rows, 0)};
    for (int64_t size : tensor.getShape().drop_front())
      shape.push_back(builder.getIndexAttr(size));
    shapes.push_back(std::move(shape));
  }
  return success();
}

} // namespace gemma::ir
