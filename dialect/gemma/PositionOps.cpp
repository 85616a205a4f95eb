// Verifiers and folds of the rotary position embeddings.
#include "dialect/gemma/Verify.h"

using namespace mlir;
using namespace gemma::ir;

/// `rot` is even, at least 2 and at most the head's dimension.
static LogicalResult verifyRot(Operation *op, int64_t rot, Type type) {
  int64_t dim = columnsOf(type);
  if (rot >= 2 && rot <= dim && rot % 2 == 0)
    return success();
  return op->emitOpError() << "expected an even rot in [2, " << dim << "], got " << rot;
}

LogicalResult RopeOp::verify() {
  auto rot = static_cast<int64_t>(getRot()), denom = static_cast<int64_t>(getDenom()),
       active = static_cast<int64_t>(getActive());
  // rope_c1
  if (failed(verifyPositive(*this, "theta", getTheta())))
    return failure();
  // rope_c2
  if (failed(verifyRot(*this, rot, getX().getType())))
    return failure();
  // rope_c3
  if (denom < 1)
    return emitOpError() << "expected denom >= 1, got " << denom;
  // rope_c4
  if (active < 0 || active > rot / 2)
    return emitOpError() << "expected active in [0, " << rot / 2 << "], got " << active;
  return success();
}

// No active frequency: every angle is 0, cos 1 and sin 0.
OpFoldResult RopeOp::fold(FoldAdaptor) { return getActive() == 0 ? getX() : OpFoldResult(); }

LogicalResult RopeStdOp::verify() {
  // rope_std_c1
  if (failed(verifyPositive(*this, "theta", getTheta())))
    return failure();
  // rope_std_c2
  return verifyRot(*this, static_cast<int64_t>(getRot()), getX().getType());
}
