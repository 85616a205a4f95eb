#include "dialect/kernel/Kernel.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace gemma::kernel;

#include "dialect/kernel/KernelDialect.cpp.inc"
#include "dialect/kernel/KernelEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/kernel/KernelAttrs.cpp.inc"
#include "dialect/kernel/KernelInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialect/kernel/KernelOps.cpp.inc"

void KernelDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/kernel/KernelAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/kernel/KernelOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// FuncOp
//===----------------------------------------------------------------------===//

ParseResult FuncOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  SmallVector<OpAsmParser::Argument> arguments;
  AffineMapAttr grid;
  if (parser.parseSymbolName(name, getSymNameAttrName(result.name), result.attributes) ||
      parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren, /*allowType=*/true,
                               /*allowAttrs=*/true) ||
      parser.parseKeyword("grid") ||
      parser.parseAttribute(grid, getGridAttrName(result.name), result.attributes) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  SmallVector<Type> types;
  SmallVector<Attribute> attributes;
  for (OpAsmParser::Argument &argument : arguments) {
    types.push_back(argument.type);
    attributes.push_back(argument.attrs ? argument.attrs
                                        : DictionaryAttr::get(parser.getContext()));
  }
  Builder &builder = parser.getBuilder();
  result.addAttribute(getFunctionTypeAttrName(result.name),
                      TypeAttr::get(builder.getFunctionType(types, {})));
  result.addAttribute(getArgAttrsAttrName(result.name), builder.getArrayAttr(attributes));
  return parser.parseRegion(*result.addRegion(), arguments);
}

void FuncOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << '(';
  llvm::interleaveComma(getBody().getArguments(), printer, [&](BlockArgument argument) {
    printer.printRegionArgument(
        argument, getArgAttrs()
                      ? cast<DictionaryAttr>((*getArgAttrs())[argument.getArgNumber()]).getValue()
                      : ArrayRef<NamedAttribute>());
  });
  printer << ") grid " << getGridAttr();
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(),
      {getSymNameAttrName(), getFunctionTypeAttrName(), getGridAttrName(), getArgAttrsAttrName()});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

Access FuncOp::getAccess(unsigned index) {
  return getArgAttrOfType<AccessAttr>(index, "kernel.access").getValue();
}

//===----------------------------------------------------------------------===//
// GridOp
//===----------------------------------------------------------------------===//

ParseResult GridOp::parse(OpAsmParser &parser, OperationState &result) {
  OpAsmParser::Argument block;
  if (parser.parseArgument(block))
    return failure();
  block.type = parser.getBuilder().getIndexType();
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, block) || parser.parseOptionalAttrDict(result.attributes))
    return failure();
  ensureTerminator(*body, parser.getBuilder(), result.location);
  return success();
}

void GridOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getBlockIndex() << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/false);
  printer.printOptionalAttrDict((*this)->getAttrs());
}
