// Verifiers of launch lists: variants, their memories and their launches.
#include "dialect/kernel/Kernel.h"
#include "dialect/program/Program.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace gemma::program;

LogicalResult VariantOp::verify() {
  // variant_c1
  IntegerSet condition = getCondition();
  if (condition.getNumDims() != 0 || condition.getNumSymbols() != 5)
    return emitOpError() << "expected a condition of 0 dimensions and 5 symbols, got "
                         << condition.getNumDims() << " and " << condition.getNumSymbols();
  // variant_c2
  auto arena = static_cast<int64_t>(getArena().value_or(0));
  if (arena < 0)
    return emitOpError() << "expected arena >= 0, got " << arena;
  // variant_c3
  for (Operation &op : getBody().front())
    if (op.getName().getDialectNamespace() != getOperation()->getName().getDialectNamespace())
      return op.emitOpError() << "expected no op of another dialect in a program.variant";
  return success();
}

LogicalResult InputOp::verify() {
  // input_c1
  bool known = llvm::StringSwitch<bool>(getName())
                   .Cases({"tokens", "positions", "ring_pages", "pages", "row_starts"}, true)
                   .Cases({"seq_lens", "slots", "page_table", "logit_rows"}, true)
                   .Default(false);
  if (!known)
    return emitOpError() << "expected the name of an input, got \"" << getName() << "\"";
  // input_c2
  int64_t rank = getName() == "page_table" ? 2 : 1;
  if (getMemory().getType().getRank() != rank)
    return emitOpError() << "expected memory of rank " << rank << ", got " << getMemory().getType();
  return success();
}

LogicalResult OutputOp::verify() {
  // output_c1
  return getName().empty() ? emitOpError() << "expected a name" : success();
}

LogicalResult BufferOp::verify() {
  auto type = cast<MemRefType>(getMemory().getType());
  // buffer_c1
  bool dynamicRows = type.getRank() > 0 && type.isDynamicDim(0);
  if (type.getNumDynamicDims() != (dynamicRows ? 1 : 0))
    return emitOpError() << "expected only the first dimension dynamic, got " << type;
  if (dynamicRows != getExtent().has_value())
    return emitOpError() << "expected " << (dynamicRows ? "an" : "no") << " extent for " << type;
  // buffer_c2
  StringRef extent = getExtent().value_or("T");
  if (extent != "T" && extent != "B" && extent != "R")
    return emitOpError() << "expected extent \"T\", \"B\" or \"R\", got \"" << extent << "\"";
  // buffer_c3
  auto offset = static_cast<int64_t>(getOffset().value_or(0));
  if (offset < 0 || offset % 64 != 0)
    return emitOpError() << "expected an offset that is a multiple of 64, got " << offset;
  return success();
}

LogicalResult TicketsOp::verify() {
  // tickets_c1
  auto type = cast<MemRefType>(getMemory().getType());
  if (type.getRank() != 1 || !type.hasStaticShape() || !type.getLayout().isIdentity())
    return emitOpError() << "expected memory of rank 1 and static size, got " << type;
  return success();
}

int64_t BufferOp::getLargestBytes(const LargestSizes &sizes) {
  auto type = cast<MemRefType>(getMemory().getType());
  int64_t elements = llvm::StringSwitch<int64_t>(getExtent().value_or(""))
                         .Case("T", sizes.tokens)
                         .Case("B", sizes.sequences)
                         .Case("R", sizes.logitRows)
                         .Default(1);
  for (int64_t size : type.getShape())
    if (!ShapedType::isDynamic(size))
      elements *= size;
  return elements * type.getElementTypeBitWidth() / 8;
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

namespace {
/// A memory as rows: what lies between two of them, and how much of that a row takes.
struct Rows {
  int64_t stride = 0;     ///< elements from a row to the next
  int64_t elements = 0;   ///< elements of a row
  bool contiguous = true; ///< a row's elements lie side by side, from offset 0 on
};
} // namespace

/// The rows of a type of rank ≥ 1 whose inner sizes are static; nothing otherwise.
static std::optional<Rows> rowsOf(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  if (type.getRank() < 1 || failed(type.getStridesAndOffset(strides, offset)))
    return std::nullopt;
  Rows rows = {strides.front(), 1, offset == 0};
  for (int64_t i = type.getRank() - 1; i > 0; --i) {
    if (type.isDynamicDim(static_cast<unsigned>(i)))
      return std::nullopt;
    rows.contiguous &= strides[static_cast<size_t>(i)] == rows.elements;
    if (llvm::MulOverflow(rows.elements, type.getDimSize(static_cast<unsigned>(i)), rows.elements))
      return std::nullopt;
  }
  return rows;
}

LogicalResult ViewOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  auto result = cast<MemRefType>(getMemory().getType());
  std::optional<Rows> from = rowsOf(source), to = rowsOf(result);
  if (!from || !to)
    return emitOpError() << "expected rows of static size, got " << (from ? result : source);
  // view_c1
  if (source.getElementType() != result.getElementType() ||
      source.getDimSize(0) != result.getDimSize(0))
    return emitOpError() << "expected the element type and the rows of " << source << ", got "
                         << result;
  // view_c2
  SmallVector<int64_t> strides;
  int64_t layoutOffset = 0;
  if (failed(result.getStridesAndOffset(strides, layoutOffset)) || layoutOffset != 0 ||
      to->stride != from->stride)
    return emitOpError() << "expected row stride " << from->stride << " and layout offset 0, got "
                         << result;
  // view_c3
  if (!from->contiguous || !to->contiguous)
    return emitOpError() << "expected rows without gaps, got "
                         << (from->contiguous ? result : source);
  // view_c4: subtracted, because a sum could overflow
  auto offset = static_cast<int64_t>(getOffset());
  if (offset < 0 || to->elements > from->elements || offset > from->elements - to->elements)
    return emitOpError() << "expected a part of the " << from->elements
                         << " elements of a row, got " << to->elements << " at " << offset;
  return success();
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// The argument's memory is what the kernel's type says: same elements at the same addresses.
static bool isCompatible(MemRefType argument, MemRefType parameter) {
  if (argument.getElementType() != parameter.getElementType() ||
      failed(verifyCompatibleShape(argument, parameter)))
    return false;
  SmallVector<int64_t> strides, expected;
  int64_t offset = 0, expectedOffset = 0;
  if (failed(argument.getStridesAndOffset(strides, offset)) ||
      failed(parameter.getStridesAndOffset(expected, expectedOffset)))
    return argument == parameter;
  return strides == expected && offset == expectedOffset;
}

namespace {
/// A range of each row of one piece of memory.
struct Span {
  Value root;              ///< behind all views
  int64_t begin = 0;       ///< first element of a row
  int64_t end = INT64_MAX; ///< one past the last
};
} // namespace

static Span spanOf(Value memory) {
  Span span;
  if (memory.getDefiningOp<ViewOp>())
    if (std::optional<Rows> rows = rowsOf(cast<MemRefType>(memory.getType())))
      span.end = rows->elements;
  while (auto view = memory.getDefiningOp<ViewOp>()) {
    auto offset = static_cast<int64_t>(view.getOffset());
    span.begin += offset;
    if (span.end != INT64_MAX)
      span.end += offset;
    memory = view.getSource();
  }
  span.root = memory;
  return span;
}

/// Two names of one memory: the same value, or two ops that refer to the same thing.
static bool isSameMemory(Value a, Value b) {
  if (a == b)
    return true;
  Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
  if (isa_and_nonnull<TicketsOp>(x) && isa_and_nonnull<TicketsOp>(y))
    return true; // all begin at the start of the region
  return isa_and_nonnull<RefOp, InputOp, OutputOp>(x) &&
         isa_and_nonnull<RefOp, InputOp, OutputOp>(y) && x->getName() == y->getName() &&
         x->getAttrDictionary() == y->getAttrDictionary();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // launch_c1
  auto kernel = symbols.lookupNearestSymbolFrom<gemma::kernel::FuncOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError() << "expected " << getKernelAttr() << " to name a kernel.func";
  // launch_c2
  ArrayRef<Type> parameters = kernel.getArgumentTypes();
  if (parameters.size() != getArguments().size())
    return emitOpError() << "expected " << parameters.size() << " arguments, got "
                         << getArguments().size();
  // launch_c3
  for (auto [index, argument] : llvm::enumerate(getArguments())) {
    auto parameter = dyn_cast<MemRefType>(parameters[index]);
    if (!parameter || !isCompatible(cast<MemRefType>(argument.getType()), parameter)) {
      InFlightDiagnostic error = emitOpError()
                                 << "expected argument " << index << " of " << parameters[index]
                                 << ", got " << argument.getType();
      error.attachNote(kernel.getLoc()) << "the kernel is here";
      return error;
    }
  }
  // launch_c4
  SmallVector<Span> spans = llvm::map_to_vector(getArguments(), spanOf);
  for (unsigned i = 0; i < spans.size(); ++i) {
    auto access = kernel.getArgAttrOfType<gemma::kernel::AccessAttr>(i, "kernel.access");
    if (!access || access.getValue() == gemma::kernel::Access::Read)
      continue;
    for (unsigned j = 0; j < spans.size(); ++j)
      if (i != j && isSameMemory(spans[i].root, spans[j].root) && spans[i].begin < spans[j].end &&
          spans[j].begin < spans[i].end)
        return emitOpError() << "expected argument " << i
                             << ", which is written, to share no memory "
                             << "with argument " << j;
  }
  return success();
}
