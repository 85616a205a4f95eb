#include "dialect/kernel/CoreOps.h"

using namespace mlir;

bool gemma::kernel::isRowsOfFloats(Type type, int64_t rank) {
  auto memref = dyn_cast<MemRefType>(type);
  return memref && memref.getRank() == rank && isa<FloatType>(memref.getElementType()) &&
         llvm::all_of(memref.getShape().drop_front(), [](int64_t size) { return size > 0; });
}

bool gemma::kernel::isAccumulator(Type type) { return type.isF32() || type.isF64(); }

LogicalResult gemma::kernel::verifyWorkspace(Operation *op, Value partials, Value tickets,
                                             bool shares, ArrayRef<int64_t> shape,
                                             int64_t leastTickets) {
  if (!shares && !partials && !tickets)
    return success();
  auto sums = partials ? dyn_cast<MemRefType>(partials.getType()) : MemRefType();
  auto counters = tickets ? cast<MemRefType>(tickets.getType()) : MemRefType();
  if (shares && sums && sums.getElementType().isF32() && sums.getShape() == shape &&
      sums.getLayout().isIdentity() && counters && counters.getRank() == 1 &&
      counters.hasStaticShape() && counters.getDimSize(0) >= leastTickets)
    return success();
  InFlightDiagnostic error = op->emitOpError();
  if (!shares)
    return error << "expected no partials and no tickets, as no two blocks share work";
  error << "expected partials of f32 [";
  llvm::interleaveComma(shape, error, [&](int64_t size) {
    ShapedType::isDynamic(size) ? void(error << "?") : void(error << size);
  });
  return error << "] and at least " << leastTickets << " tickets";
}

bool gemma::kernel::isElementwise(Operation &op) {
  return isa<YieldOp, arith::ConstantOp>(op) ||
         (isa<arith::ArithDialect, math::MathDialect>(op.getDialect()) &&
          OpTrait::hasElementwiseMappableTraits(&op));
}
