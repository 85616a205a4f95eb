#include "dialect/gemma/Gemma.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace gemma::ir;

#include "dialect/gemma/GemmaDialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/gemma/GemmaTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/gemma/GemmaAttrs.cpp.inc"
#include "dialect/gemma/GemmaInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialect/gemma/GemmaOps.cpp.inc"

void GemmaDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/gemma/GemmaTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/gemma/GemmaAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/gemma/GemmaOps.cpp.inc"
      >();
}
