// Verifiers of the cache ops.
#include "dialect/gemma/Verify.h"

using namespace mlir;
using namespace gemma::ir;

/// %cache, %k, %v, %batch, or %cache, %v, %batch, then the types of cache and v.
ParseResult CacheAppendOp::parse(OpAsmParser &parser, OperationState &state) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SMLoc at = parser.getCurrentLocation();
  CacheType cache;
  Type row;
  if (parser.parseOperandList(operands) || parser.parseOptionalAttrDict(state.attributes) ||
      parser.parseColon() || parser.parseCustomTypeWithFallback(cache) || parser.parseComma() ||
      parser.parseType(row))
    return failure();
  SmallVector<Type> types = {cache, row, BatchType::get(parser.getContext())};
  if (operands.size() == 4)
    types.insert(types.begin() + 1, row);
  state.addTypes(cache);
  return parser.resolveOperands(operands, types, at, state.operands);
}

void CacheAppendOp::print(OpAsmPrinter &printer) {
  printer << " ";
  printer.printOperands(getOperands());
  printer.printOptionalAttrDict(getOperation()->getAttrs());
  printer << " : ";
  printer.printStrippedAttrOrType(getCache().getType());
  printer << ", " << getV().getType();
}

LogicalResult CacheAppendOp::verify() {
  // cache_append_c4
  if (getK() && getK().getType() != getV().getType())
    return emitOpError() << "expected keys of the values' type " << getV().getType() << ", got "
                         << getK().getType();
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
  gemma::program::CacheOp cache =
      verifyCache(*this, symbols, getCache().getType(), dimOf(getV().getType(), 1),
                  columnsOf(getV().getType()));
  if (!cache)
    return failure();
  // cache_append_c3
  if (static_cast<bool>(getK()) == cache.hasKeys())
    return success();
  InFlightDiagnostic error = emitOpError() << (getK() ? "expected values alone, as the cache stores"
                                                      : "expected keys beside the values");
  error.attachNote(cache.getLoc()) << "the cache is here";
  return error;
}
