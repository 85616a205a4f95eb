// Verifiers of the cache ops.
#include "dialect/gemma/Verify.h"

using namespace mlir;
using namespace gemma::ir;

LogicalResult CacheAppendOp::verify() {
  // cache_append_c1
  for (Operation *user : getCache().getUsers())
    if (user != getOperation() && isa<CacheAppendOp>(user)) {
      InFlightDiagnostic error = emitOpError() << "consumes a version that is consumed elsewhere";
      error.attachNote(user->getLoc()) << "consumed here";
      return error;
    }
  return success();
}

LogicalResult CacheAppendOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // cache_append_c2
  return success(
      static_cast<bool>(verifyCache(*this, symbols, getCache().getType(),
                                    dimOf(getK().getType(), 1), columnsOf(getK().getType()))));
}
