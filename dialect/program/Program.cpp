#include "dialect/program/Program.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace gemma::program;

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
