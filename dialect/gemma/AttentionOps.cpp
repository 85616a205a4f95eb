// Verifiers of attention.
#include "dialect/gemma/Verify.h"

using namespace mlir;
using namespace gemma::ir;

LogicalResult GqaOp::verify() {
  int64_t heads = dimOf(getQ().getType(), 1);
  auto kvHeads = static_cast<int64_t>(getKvHeads());
  // gqa_c1
  if (kvHeads < 1 || heads % kvHeads != 0)
    return emitOpError() << "expected kv_heads to divide " << heads << " heads, got " << kvHeads;
  // gqa_c2
  if (failed(verifyFinite(*this, "scale", getScale())))
    return failure();
  // gqa_c3
  auto window = static_cast<int64_t>(getWindow().value_or(1));
  if (window < 1)
    return emitOpError() << "expected window >= 1, got " << window;
  // gqa_c4: the append may already have overwritten what this op reads.
  for (Operation *user : getCache().getUsers())
    if (isa<CacheAppendOp>(user)) {
      InFlightDiagnostic error = emitOpError() << "reads a version of the cache that is consumed";
      error.attachNote(user->getLoc()) << "consumed here";
      return error;
    }
  return success();
}

LogicalResult GqaOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // gqa_c5
  gemma::program::CacheOp cache =
      verifyCache(*this, symbols, getCache().getType(), static_cast<int64_t>(getKvHeads()),
                  columnsOf(getQ().getType()));
  if (!cache)
    return failure();
  // gqa_c6
  uint64_t window = getWindow().value_or(0);
  if (cache.getWindow() != window) {
    InFlightDiagnostic error = emitOpError() << "expected the cache's window " << cache.getWindow()
                                             << ", got " << window;
    error.attachNote(cache.getLoc()) << "the cache is here";
    return error;
  }
  // gqa_c7
  std::optional<KeysOfValuesAttr> keys = getKeys();
  if (keys.has_value() == cache.hasKeys()) {
    InFlightDiagnostic error = emitOpError()
                               << (keys ? "expected no keys for a cache that stores them"
                                        : "expected keys for a cache of values alone");
    error.attachNote(cache.getLoc()) << "the cache is here";
    return error;
  }
  // gqa_c8
  if (!keys)
    return success();
  int64_t dim = columnsOf(getQ().getType());
  if (keys->getRot() > dim)
    return emitOpError() << "expected keys that rotate at most " << dim << " coordinates, got "
                         << keys->getRot();
  return verifyWeight(*this, symbols, keys->getNorm(), {dim});
}
