// kernel.rows: its verifier.
#include "dialect/kernel/CoreOps.h"

using namespace mlir;
using namespace gemma::kernel;

/// A body works on the memory's own type, or on a wider float.
static bool widens(Type memory, Type body) {
  if (memory == body)
    return true;
  auto narrow = dyn_cast<FloatType>(memory), wide = dyn_cast<FloatType>(body);
  return narrow && wide && wide.getWidth() > narrow.getWidth();
}

static bool isRow(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 1 && tensor.hasStaticShape() && tensor.getDimSize(0) > 0;
}

/// rows_c7: slices are static and of unit stride.
static bool isAllowed(Operation &op) {
  if (isElementwise(op) || isa<ReduceOp, tensor::SplatOp>(op))
    return true;
  if (!isa<tensor::ExtractSliceOp, tensor::InsertSliceOp>(op))
    return false;
  auto slice = cast<OffsetSizeAndStrideOpInterface>(op);
  return llvm::none_of(slice.getStaticOffsets(), ShapedType::isDynamic) &&
         llvm::none_of(slice.getStaticSizes(), ShapedType::isDynamic) &&
         llvm::all_of(slice.getStaticStrides(), [](int64_t stride) { return stride == 1; });
}

LogicalResult RowsOp::verify() {
  // rows_c1
  AffineMap domain = getDomain();
  unsigned dims = getBlock() ? 1 : 0;
  if (domain.getNumDims() != dims || domain.getNumSymbols() != 5 || domain.getNumResults() != 4)
    return emitOpError() << "expected a domain of " << dims
                         << " dimensions, 5 symbols and 4 results, got " << domain.getNumDims()
                         << ", " << domain.getNumSymbols() << " and " << domain.getNumResults();
  // rows_c2
  auto memories = llvm::to_vector(llvm::concat<Value>(getInputs(), getOutputs()));
  if (getOutputs().empty())
    return emitOpError() << "expected an output";
  if (getMaps().size() != memories.size())
    return emitOpError() << "expected " << memories.size() << " maps, got " << getMaps().size();
  // rows_c3
  for (auto [index, memory, map] :
       llvm::enumerate(memories, getMaps().getAsValueRange<AffineMapAttr>())) {
    int64_t rank = cast<MemRefType>(memory.getType()).getRank();
    size_t expected = 3 + getLookups().size();
    if (map.getNumDims() != expected || map.getNumSymbols() != 0 || map.getNumResults() != rank)
      return emitOpError() << "expected map " << index << " of " << expected
                           << " dimensions, 0 symbols and " << rank << " results, got "
                           << map.getNumDims() << ", " << map.getNumSymbols() << " and "
                           << map.getNumResults();
  }
  // rows_c4
  for (Value lookup : getLookups())
    if (cast<MemRefType>(lookup.getType()).getRank() != 1)
      return emitOpError() << "expected lookups of rank 1, got " << lookup.getType();
  // rows_c5
  Block &body = getBody().front();
  if (body.getNumArguments() != getInputs().size())
    return emitOpError() << "expected a body of " << getInputs().size() << " arguments, got "
                         << body.getNumArguments();
  for (auto [input, argument] : llvm::zip_equal(getInputs(), body.getArguments())) {
    Type type = argument.getType();
    if ((isa<ShapedType>(type) && !isRow(type)) ||
        !widens(getElementTypeOrSelf(input.getType()), getElementTypeOrSelf(type)))
      return emitOpError() << "expected argument " << argument.getArgNumber()
                           << " of the body to be a row or a scalar that holds "
                           << getElementTypeOrSelf(input.getType()) << ", got " << type;
  }
  // rows_c6
  auto yield = dyn_cast<YieldOp>(body.back());
  if (!yield || yield.getValues().size() != getOutputs().size())
    return emitOpError() << "expected to yield " << getOutputs().size() << " values";
  for (auto [output, value] : llvm::zip_equal(getOutputs(), yield.getValues()))
    if (!isRow(value.getType()) ||
        !widens(getElementTypeOrSelf(output.getType()), getElementTypeOrSelf(value.getType())))
      return emitOpError() << "expected to yield a row for " << output.getType() << ", got "
                           << value.getType();
  // rows_c7
  for (Operation &op : body)
    if (!isAllowed(op))
      return op.emitOpError() << "cannot be in the body of a kernel.rows";
  // rows_c8
  for (int64_t index : getSwizzled().value_or(ArrayRef<int64_t>())) {
    auto type = index >= 0 && index < static_cast<int64_t>(memories.size())
                    ? dyn_cast<MemRefType>(memories[static_cast<size_t>(index)].getType())
                    : MemRefType();
    if (!type || type.getRank() < 2 || !isa<FloatType>(type.getElementType()) ||
        type.getElementTypeBitWidth() != 16 || type.getShape().back() != 64 ||
        type.getShape().take_back(2).front() < 1 || type.getShape().take_back(2).front() > 8)
      return emitOpError() << "expected swizzled memory " << index
                           << " to be a memref of ... x R x 64 16-bit floats, R at most 8";
  }
  return success();
}
