// Verifiers of groups.
#include "dialect/gemma/Gemma.h"

using namespace mlir;
using namespace gemma::ir;

LogicalResult GroupOp::verify() {
  // group_c1
  auto yield = cast<YieldOp>(getBody().front().getTerminator());
  if (yield.getOperandTypes() != getResultTypes())
    return emitOpError() << "expected to yield (" << getResultTypes() << "), got ("
                         << yield.getOperandTypes() << ")";
  // group_c2
  if ((*this)->getParentOfType<GroupOp>())
    return emitOpError() << "expected to be in no other group";
  return success();
}
