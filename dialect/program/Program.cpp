#include "dialect/program/Program.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace gemma::program;

/// cache_c5: `lanes [k, v]`, which may be left out, or `lanes [v]`.
static ParseResult parseCacheLanes(OpAsmParser &parser, CacheLanesAttr &lanes) {
  SmallVector<StringRef> names;
  SMLoc at = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword("lanes")) &&
      parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square,
                                     [&] { return parser.parseKeyword(&names.emplace_back()); }))
    return failure();
  std::optional<CacheLanes> known = CacheLanes::KeysAndValues;
  if (!names.empty())
    known = symbolizeCacheLanes(llvm::join(names, ", "));
  if (!known)
    return parser.emitError(at) << "expected lanes [k, v] or [v], got [" << llvm::join(names, ", ")
                                << "]";
  lanes = CacheLanesAttr::get(parser.getContext(), *known);
  return success();
}

static void printCacheLanes(OpAsmPrinter &printer, CacheOp, CacheLanesAttr lanes) {
  printer << "lanes [" << stringifyCacheLanes(lanes.getValue()) << "]";
}

#include "dialect/program/ProgramDialect.cpp.inc"
#include "dialect/program/ProgramEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/program/ProgramAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialect/program/ProgramOps.cpp.inc"

void ProgramDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/program/ProgramAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/program/ProgramOps.cpp.inc"
      >();
}
