// Verifiers of the core ops: rows, contract, attention, topk.
#include "dialect/kernel/Kernel.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace gemma::kernel;

LogicalResult PagingAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t page,
                                 int64_t ring) {
  // paging_c1
  if (page < 1)
    return emitError() << "expected page >= 1, got " << page;
  // paging_c2
  if (ring < 0)
    return emitError() << "expected ring >= 0, got " << ring;
  return success();
}

LogicalResult LaunchAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                                 int64_t threads, int64_t shared) {
  // launch_c1
  if (threads < 32 || threads > 1024 || threads % 32 != 0)
    return emitError() << "expected threads to be a multiple of 32 in [32, 1024], got " << threads;
  // launch_c2
  if (shared < 0)
    return emitError() << "expected shared >= 0, got " << shared;
  return success();
}

LogicalResult MmaAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t rows,
                              int64_t tokens, int64_t k, int64_t stages, int64_t segments,
                              int64_t raster) {
  // mma_c1
  if (rows < 16 || rows % 16 != 0 || tokens < 8 || tokens % 8 != 0 || k < 64 || k % 64 != 0)
    return emitError() << "expected positive multiples, rows of 16, tokens of 8 and k of 64, got "
                       << rows << ", " << tokens << " and " << k;
  // mma_c2
  if (stages < 2 || stages > 8)
    return emitError() << "expected stages in [2, 8], got " << stages;
  // mma_c3
  if (segments < 0 || segments > 65535)
    return emitError() << "expected segments in [0, 65535], got " << segments;
  // mma_c4
  if (raster < 1 || raster > 256)
    return emitError() << "expected raster in [1, 256], got " << raster;
  return success();
}

LogicalResult FlashAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t keys,
                                int64_t stages, int64_t splits, int64_t run) {
  // flash_c1
  if (keys != 16 && keys != 32 && keys != 64 && keys != 128)
    return emitError() << "expected keys to be 16, 32, 64 or 128, got " << keys;
  // flash_c2
  if (stages < 1 || stages > 4)
    return emitError() << "expected stages in [1, 4], got " << stages;
  // flash_c3
  if (splits < 1 || splits > 128 || run < 1)
    return emitError() << "expected splits in [1, 128] and a positive run, got " << splits
                       << " and " << run;
  return success();
}

/// True for a memref of this rank whose elements are floats and whose sizes but the first are
/// static and positive.
static bool isRowsOfFloats(Type type, int64_t rank) {
  auto memref = dyn_cast<MemRefType>(type);
  return memref && memref.getRank() == rank && isa<FloatType>(memref.getElementType()) &&
         llvm::all_of(memref.getShape().drop_front(), [](int64_t size) { return size > 0; });
}

/// The same of i8.
static bool isRowsOfCodes(Type type, int64_t rank) {
  auto memref = dyn_cast<MemRefType>(type);
  return memref && memref.getRank() == rank && memref.getElementType().isSignlessInteger(8) &&
         llvm::all_of(memref.getShape().drop_front(), [](int64_t size) { return size > 0; });
}

static bool isAccumulator(Type type) { return type.isF32() || type.isF64(); }

/// Whether a kernel that shares work between blocks has the memory for it, and no other kernel:
/// f32 partial results of this shape, and a row of tickets.
static LogicalResult verifyWorkspace(Operation *op, Value partials, Value tickets, bool shares,
                                     ArrayRef<int64_t> shape, int64_t leastTickets) {
  if (!shares && !partials && !tickets)
    return success();
  auto sums = partials ? dyn_cast<MemRefType>(partials.getType()) : MemRefType();
  auto counters = tickets ? cast<MemRefType>(tickets.getType()) : MemRefType();
  if (shares && sums && sums.getElementType().isF32() && sums.getShape() == shape &&
      sums.getLayout().isIdentity() && counters && counters.getRank() == 1 &&
      counters.hasStaticShape() && counters.getDimSize(0) >= leastTickets)
    return success();
  InFlightDiagnostic error = op->emitOpError();
  if (!shares)
    return error << "expected no partials and no tickets, as no two blocks share work";
  error << "expected partials of f32 [";
  llvm::interleaveComma(shape, error, [&](int64_t size) {
    ShapedType::isDynamic(size) ? void(error << "?") : void(error << size);
  });
  return error << "] and at least " << leastTickets << " tickets";
}

/// Elementwise maths and constants, and the terminator.
static bool isElementwise(Operation &op) {
  return isa<YieldOp, arith::ConstantOp>(op) ||
         (isa<arith::ArithDialect, math::MathDialect>(op.getDialect()) &&
          OpTrait::hasElementwiseMappableTraits(&op));
}

//===----------------------------------------------------------------------===//
// RowsOp
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// ContractOp
//===----------------------------------------------------------------------===//

/// contract_c2: P x K x 16, or P x ceil(K/2) x 16 x 2 of 16-bit floats.
static bool isPacked(MemRefType weight, int64_t columns) {
  if (!weight.hasStaticShape() || !isa<FloatType>(weight.getElementType()))
    return false;
  ArrayRef<int64_t> shape = weight.getShape();
  if (shape.size() == 3)
    return shape[1] == columns && shape[2] == 16;
  return shape.size() == 4 && weight.getElementTypeBitWidth() == 16 &&
         shape[1] == static_cast<int64_t>(llvm::divideCeil(static_cast<uint64_t>(columns), 2)) &&
         shape[2] == 16 && shape[3] == 2;
}

/// contract_c2 of GPU kernels: ceil(K/64) x G x 8 x 64 of 16-bit floats.
static bool isPackedForGpu(MemRefType weight, int64_t columns) {
  return weight.hasStaticShape() && weight.getRank() == 4 &&
         isa<FloatType>(weight.getElementType()) && weight.getElementTypeBitWidth() == 16 &&
         weight.getDimSize(0) ==
             static_cast<int64_t>(llvm::divideCeil(static_cast<uint64_t>(columns), 64)) &&
         weight.getDimSize(2) == 8 && weight.getDimSize(3) == 64;
}

/// A [T, columns] memref of this element type.
static bool isRowsOf(Type type, int64_t columns, llvm::function_ref<bool(Type)> isElement) {
  auto memref = dyn_cast<MemRefType>(type);
  return memref && memref.getRank() == 2 && memref.getDimSize(1) == columns && columns > 0 &&
         isElement(memref.getElementType());
}

static bool isF32(Type type) { return type.isF32(); }
static bool isI32(Type type) { return type.isSignlessInteger(32); }
static bool isCode(Type type) { return type.isSignlessInteger(8) || type.isSignlessInteger(16); }

/// Most consecutive k of a block: those of two panels then fit the L1 cache, those of the rows the
/// L2.
static int64_t blockDepth(int64_t depth, int64_t bytes) {
  constexpr int64_t weightBytes = 16384, group = 32;
  int64_t most = weightBytes / (16 * bytes), blocks = (depth + most - 1) / most;
  return static_cast<int64_t>(
      llvm::alignTo(static_cast<uint64_t>((depth + blocks - 1) / blocks), group));
}

SmallVector<MemRefType> ContractOp::getScratchBlocks() {
  if (getGpuTile())
    return {};
  // Rows a power of two apart would share few sets of the first cache: a line more lies between.
  constexpr int64_t line = 64;
  auto act = cast<MemRefType>(getAct().getType());
  auto rows = static_cast<int64_t>(getRowTile()), panels = static_cast<int64_t>(getPanels());
  int64_t prepared = std::min<int64_t>(panels, 2);
  auto integer = [&](unsigned bits) { return IntegerType::get(getContext(), bits); };
  Type compute = getEpilogue().front().getArgument(0).getType();
  SmallVector<MemRefType> blocks;
  if (isBlocked() && !isQuantised()) {
    int64_t bytes = compute.getIntOrFloatBitWidth() / 8;
    int64_t depth = blockDepth(act.getDimSize(1), bytes);
    blocks = {MemRefType::get({rows, panels * 16}, compute),
              MemRefType::get({rows, depth + line / bytes}, compute),
              MemRefType::get({prepared, depth, 16}, compute)};
  } else if (isBlocked()) {
    int64_t depth = blockDepth(act.getDimSize(1), 2);
    blocks = {MemRefType::get({rows, panels * 16}, compute),
              MemRefType::get({rows, depth + line / 2}, integer(16)),
              MemRefType::get({rows, depth / 32}, compute),
              MemRefType::get({rows, depth / 32}, integer(32)),
              MemRefType::get({prepared, depth / 32, 16, 64}, integer(8)),
              MemRefType::get({prepared, depth / 32, 16}, compute)};
  }
  if (isQuantised() && act.getElementType().isSignlessInteger(8))
    blocks.push_back(MemRefType::get({std::min<int64_t>(rows, 8), act.getDimSize(1)}, integer(16)));
  return blocks;
}

/// contract_c8
static LogicalResult verifyQuantised(ContractOp op) {
  auto weight = cast<MemRefType>(op.getWeight().getType());
  bool shaped = weight.getRank() == 5 && weight.hasStaticShape() &&
                weight.getElementType().isSignlessInteger(8) &&
                (weight.getDimSize(2) == 8 || weight.getDimSize(2) == 4) &&
                weight.getDimSize(3) == 16 && weight.getDimSize(4) == 4;
  int64_t groups = shaped ? weight.getDimSize(1) : 0;
  auto scales = op.getQuantised().size() == 3 ? dyn_cast<MemRefType>(op.getWeightScales().getType())
                                              : MemRefType();
  if (!shaped || !scales || !scales.getElementType().isF16() ||
      scales.getShape() != ArrayRef<int64_t>{weight.getDimSize(0), groups, 16} ||
      !isRowsOf(op.getActScales().getType(), groups, isF32) ||
      !isRowsOf(op.getActStarts().getType(), groups, isI32) ||
      !isRowsOf(op.getAct().getType(), 32 * groups, isCode) || op.getGpuTile() ||
      !op.getEpilogue().front().getArgument(0).getType().isF32())
    return op.emitOpError()
           << "expected codes [T, 32 G], a weight P x G x 8 x 16 x 4 or P x G x 4 x 16 x 4 of i8 "
              "and "
              "quantised scales [P, G, 16] of f16, [T, G] of f32 and starts [T, G] of i32, an "
              "epilogue of f32 and no gpu_tile, got "
           << op.getAct().getType() << ", " << weight << " and (" << op.getQuantised().getTypes()
           << ")";
  return success();
}

bool ContractOp::hasPreparedRows() { return getGpuTile() && getAct().getDefiningOp<ScratchOp>(); }

LogicalResult ContractOp::verify() {
  // contract_c1
  auto act = dyn_cast<MemRefType>(getAct().getType());
  bool gpu = getGpuTile().has_value();
  bool prepared = gpu && hasPreparedRows();
  if (!isRowsOfFloats(getOut().getType(), 2) ||
      (isQuantised() ? !act || !isRowsOf(act, act.getRank() == 2 ? act.getDimSize(1) : 0, isCode)
                     : !prepared && !isRowsOfFloats(act, 2)))
    return emitOpError() << "expected act and out of [T, N] floats with static N, got "
                         << getAct().getType() << " and " << getOut().getType();
  if (prepared && (!act.getElementType().isBF16() || act.getRank() != 3 || act.getDimSize(1) > 8 ||
                   act.getDimSize(2) != 64 || getGpuTileAttr().getTokens() != 8))
    return emitOpError() << "expected act in scratch to be [K/64, R, 64] of bf16, R at most 8, "
                            "beside a gpu_tile of 8 tokens, got "
                         << act;
  int64_t columns = prepared ? 64 * act.getDimSize(0) : act.getDimSize(1);
  // contract_c2
  auto weight = cast<MemRefType>(getWeight().getType());
  if (gpu && !isPackedForGpu(weight, columns))
    return emitOpError() << "expected a weight of 16-bit floats in "
                         << llvm::divideCeil(static_cast<uint64_t>(columns), 64)
                         << " x G x 8 x 64 for " << columns << " columns, got " << weight;
  if (!gpu && !isQuantised() && !isPacked(weight, columns))
    return emitOpError() << "expected a weight packed in panels of 16 with " << columns
                         << " columns, got " << weight;
  // contract_c3
  auto panels = static_cast<int64_t>(getPanels()), rowTile = static_cast<int64_t>(getRowTile());
  if (panels < 1 || rowTile < 1)
    return emitOpError() << "expected positive panels and row_tile, got " << panels << " and "
                         << rowTile;
  if (isQuantised() && weight.getRank() != 5)
    return verifyQuantised(*this);
  int64_t inPair = getPair() ? 2 : 1, packed = weight.getDimSize(gpu ? 1 : 0);
  if ((!gpu && panels % inPair != 0) || packed % inPair != 0)
    return emitOpError() << "expected pairs of panels, got " << panels << " of " << packed;
  // contract_c4: divided, because a product could overflow
  int64_t outColumns = cast<MemRefType>(getOut().getType()).getDimSize(1);
  if (static_cast<int64_t>(llvm::divideCeil(static_cast<uint64_t>(outColumns), gpu ? 8 : 16)) >
      packed / inPair)
    return emitOpError() << "expected out of at most the rows of " << packed / inPair
                         << (gpu ? " groups" : " panels") << ", got " << outColumns << " columns";
  // contract_c5
  Block &body = getEpilogue().front();
  auto yield = dyn_cast<YieldOp>(body.back());
  if (body.getNumArguments() != inPair || !isAccumulator(body.getArgument(0).getType()) ||
      !llvm::all_equal(body.getArgumentTypes()))
    return emitOpError() << "expected an epilogue of " << inPair << " f32 or f64, got ("
                         << body.getArgumentTypes() << ")";
  if (!yield || yield.getValues().size() != 1 ||
      yield.getValues().front().getType() != body.getArgument(0).getType())
    return emitOpError() << "expected the epilogue to yield one " << body.getArgument(0).getType();
  // contract_c6
  for (Operation &op : body)
    if (!isElementwise(op))
      return op.emitOpError() << "cannot be in the epilogue of a kernel.contract";
  if (isQuantised() && failed(verifyQuantised(*this)))
    return failure();
  // contract_c7
  int64_t segments = gpu ? getGpuTileAttr().getSegments() : 0;
  int64_t tile = gpu ? getGpuTileAttr().getRows() * getGpuTileAttr().getTokens() : 0;
  if (failed(verifyWorkspace(*this, getPartials(), getTickets(), segments > 0, {2 * segments, tile},
                             segments)))
    return failure();
  // contract_c9
  if (!getBest())
    return success();
  auto best = cast<MemRefType>(getBest().getType());
  int64_t tileRows = gpu ? getGpuTileAttr().getRows() : 1;
  int64_t rowTiles = (8 * packed + tileRows - 1) / tileRows;
  if (!gpu || getPair() || !cast<MemRefType>(getOut().getType()).getElementType().isF32() ||
      best.getRank() != 3 || best.getShape().drop_front() != ArrayRef<int64_t>{rowTiles, 2} ||
      !best.getLayout().isIdentity())
    return emitOpError() << "expected best of [T, " << rowTiles
                         << ", 2] beside a gpu_tile and out of f32, without pair, got " << best;
  return success();
}

//===----------------------------------------------------------------------===//
// QuantizeOp
//===----------------------------------------------------------------------===//

LogicalResult QuantizeOp::verify() {
  // quantize_c1
  if (!isRowsOfFloats(getX().getType(), 2))
    return emitOpError() << "expected x of [T, K] floats with static K, got " << getX().getType();
  // quantize_c2
  auto columns = static_cast<uint64_t>(cast<MemRefType>(getX().getType()).getDimSize(1));
  auto groups = static_cast<int64_t>(llvm::divideCeil(columns, uint64_t(32)));
  if (!isRowsOf(getCodes().getType(), 32 * groups, isCode) ||
      !isRowsOf(getScales().getType(), groups, isF32) ||
      !isRowsOf(getStarts().getType(), groups, isI32))
    return emitOpError() << "expected codes [T, " << 32 * groups
                         << "] of i8 or i16, scales and starts [T, " << groups << "], got "
                         << getCodes().getType() << ", " << getScales().getType() << " and "
                         << getStarts().getType();
  // quantize_c3
  if (auto zero = static_cast<int64_t>(getZero()); zero != 8 && zero != 128)
    return emitOpError() << "expected zero 8 or 128, got " << zero;
  return success();
}

//===----------------------------------------------------------------------===//
// AttentionOp
//===----------------------------------------------------------------------===//

static LogicalResult verifyKeyParts(AttentionOp op, int64_t dim, int64_t page) {
  // attention_c9
  auto isFloats = [](Type type, ArrayRef<int64_t> shape) {
    auto memory = dyn_cast<MemRefType>(type);
    return memory && isa<FloatType>(memory.getElementType()) && memory.getShape() == shape;
  };
  OperandRange parts = op.getKeyParts();
  auto rot = op.getRotAttr().getInt();
  auto table = dyn_cast<MemRefType>(parts.back().getType());
  int64_t active = table && table.getRank() == 2 ? table.getDimSize(1) : 0;
  if (parts.size() != 5 || rot < 2 || rot > dim || rot % 2 != 0 || active < 1 || active > rot / 2 ||
      !isFloats(parts.front().getType(), {dim}) ||
      !llvm::all_of(parts.drop_front(),
                    [&](Value part) { return isFloats(part.getType(), {512, active}); }))
    return op.emitOpError()
           << "expected keys_of_values of w [" << dim
           << "] and four tables [512, active], active <= rot / 2, and an even rot "
              "<= "
           << dim << ", got " << parts.getTypes() << " and rot " << rot;
  // attention_c10
  if (page < 1 || 512 % page != 0)
    return op.emitOpError() << "expected a page that divides 512, got " << page;
  return success();
}

LogicalResult AttentionOp::verify() {
  // attention_c1
  auto q = dyn_cast<MemRefType>(getQ().getType()), out = dyn_cast<MemRefType>(getOut().getType());
  for (Type type : {getQ().getType(), getOut().getType()})
    if (!isRowsOfFloats(type, 3))
      return emitOpError() << "expected q and out of [T, heads, D] floats, got " << type;
  int64_t splits = getGpuTile() ? getGpuTileAttr().getSplits() : 1;
  if (q.getDimSize(1) != splits * out.getDimSize(1) || q.getDimSize(2) != out.getDimSize(2))
    return emitOpError() << "expected q and out of the same heads and D"
                         << (splits > 1 ? ", the heads of q once a split" : "") << ", got " << q
                         << " and " << out;
  int64_t heads = out.getDimSize(1), dim = q.getDimSize(2), page = getPaging().getPage();
  // attention_c8
  if (getKCache() ? !getKeyParts().empty() || getRot() : getKeyParts().empty() || !getRot())
    return emitOpError() << "expected either k, or keys_of_values and rot";
  // attention_c2
  auto v = dyn_cast<MemRefType>(getVCache().getType());
  auto k = getKCache() ? dyn_cast<MemRefType>(getKCache().getType()) : MemRefType();
  for (Value cache : {getKCache(), getVCache()})
    if (cache && !isRowsOfFloats(cache.getType(), 4) && !isRowsOfCodes(cache.getType(), 4))
      return emitOpError() << "expected caches of rank 4 and floats or i8, got " << cache.getType();
  int64_t kvHeads = v.getDimSize(1);
  if (!k && v.getShape().drop_front() != ArrayRef<int64_t>{kvHeads, page, dim})
    return emitOpError() << "expected a cache [pages, kvHeads, " << page << ", " << dim << "], got "
                         << v;
  if (k && (k.getElementType() != v.getElementType() ||
            k.getShape().drop_front() != ArrayRef<int64_t>{kvHeads, dim, page} ||
            v.getShape().drop_front() != ArrayRef<int64_t>{kvHeads, page, dim}))
    return emitOpError() << "expected caches [pages, kvHeads, " << dim << ", " << page
                         << "] and [pages, kvHeads, " << page << ", " << dim << "], got " << k
                         << " and " << v;
  if (!k && failed(verifyKeyParts(*this, dim, page)))
    return failure();
  // attention_c3
  if (heads % kvHeads != 0)
    return emitOpError() << "expected KV heads that divide " << heads << " heads, got " << kvHeads;
  // attention_c4
  for (Value memory : {getRowStarts(), getSeqLens(), getSlots()})
    if (cast<MemRefType>(memory.getType()).getRank() != 1)
      return emitOpError() << "expected row_starts, seq_lens and slots of rank 1, got "
                           << memory.getType();
  if (cast<MemRefType>(getPageTable().getType()).getRank() != 2)
    return emitOpError() << "expected a page_table of rank 2, got " << getPageTable().getType();
  // attention_c5
  auto queryTile = static_cast<int64_t>(getQueryTile()), window = static_cast<int64_t>(getWindow());
  if (queryTile < 1 || window < 0)
    return emitOpError() << "expected query_tile >= 1 and window >= 0, got " << queryTile << " and "
                         << window;
  if (!getScale().isFinite())
    return emitOpError() << "expected a finite scale, got " << getScaleAttr();
  // attention_c6: divided, because a product could overflow
  int64_t ring = getPaging().getRing();
  if (ring > 0 &&
      (window == 0 || ring < static_cast<int64_t>(llvm::divideCeil(static_cast<uint64_t>(window),
                                                                   static_cast<uint64_t>(page)))))
    return emitOpError() << "expected a window that " << ring << " pages of " << page
                         << " hold, got " << window;
  // attention_c7
  if (!isAccumulator(getAccumulate()))
    return emitOpError() << "expected to accumulate in f32 or f64, got " << getAccumulate();
  // attention_c12
  bool coded = v.getElementType().isSignlessInteger(8);
  auto isScales = [&](Value scales) {
    auto memory = dyn_cast<MemRefType>(scales.getType());
    return memory && memory.getElementType().isF32() && memory.getRank() == 3 &&
           memory.getShape().drop_front() == ArrayRef<int64_t>{kvHeads, page};
  };
  if (getCacheScales().size() != (coded ? k ? 2U : 1U : 0U) ||
      !llvm::all_of(getCacheScales(), isScales) ||
      (coded && (!getAccumulate().isF32() || getGpuTile())))
    return emitOpError() << "expected scales [pages, " << kvHeads << ", " << page
                         << "] of f32 for each cache of i8 and no others, accumulated in f32 and "
                            "without gpu_tile, got "
                         << getCacheScales().getTypes();
  // attention_c13
  if (std::optional<uint64_t> parts = getHeadParts();
      parts && (static_cast<int64_t>(*parts) < 1 ||
                heads / kvHeads % static_cast<int64_t>(*parts) != 0 || getGpuTile()))
    return emitOpError() << "expected head_parts that divide " << heads / kvHeads
                         << " heads, without gpu_tile, got " << getHeadPartsAttr();
  // attention_c11
  if (splits > 1 && queryTile != 1)
    return emitOpError() << "expected query_tile 1 with splits, got " << queryTile;
  return verifyWorkspace(*this, getPartials(), getTickets(), splits > 1,
                         {ShapedType::kDynamic, kvHeads, splits, heads / kvHeads, dim + 4},
                         kvHeads);
}

int64_t AttentionOp::getBlockHeads() {
  int64_t group = cast<MemRefType>(getOut().getType()).getDimSize(1) /
                  cast<MemRefType>(getVCache().getType()).getDimSize(1);
  return group / static_cast<int64_t>(getHeadParts().value_or(1));
}

SmallVector<MemRefType> AttentionOp::getScratchBlocks() {
  int64_t dim = cast<MemRefType>(getQ().getType()).getDimSize(2), page = getPaging().getPage();
  int64_t rows = static_cast<int64_t>(getQueryTile()) * getBlockHeads();
  int64_t keys = std::max(page, std::min<int64_t>(4 * page, 512 / page * page));
  Type type = getAccumulate();
  SmallVector<MemRefType> blocks = {
      MemRefType::get({rows, keys}, type),
      MemRefType::get({rows, dim}, type),
      MemRefType::get({rows}, type),
      MemRefType::get({rows}, type),
      MemRefType::get({rows}, type),
      MemRefType::get({keys, 48}, getElementTypeOrSelf(getVCache().getType()))};
  if (getKCache())
    return blocks;
  int64_t active = cast<MemRefType>(getKeyParts().back().getType()).getDimSize(1);
  blocks.push_back(MemRefType::get({rows, dim}, type));
  blocks.push_back(MemRefType::get({keys, 2 * active}, type));
  return blocks;
}

//===----------------------------------------------------------------------===//
// TopKOp
//===----------------------------------------------------------------------===//

LogicalResult TopKOp::verify() {
  // topk_c1
  if (!isRowsOfFloats(getX().getType(), 2))
    return emitOpError() << "expected x of [R, V] floats, got " << getX().getType();
  auto x = cast<MemRefType>(getX().getType());
  auto k = static_cast<int64_t>(getK());
  if (k < 1 || k > x.getDimSize(1))
    return emitOpError() << "expected k in [1, " << x.getDimSize(1) << "], got " << k;
  // topk_c2
  auto values = dyn_cast<MemRefType>(getValues().getType());
  auto ids = cast<MemRefType>(getIds().getType());
  if (!isRowsOfFloats(values, 2) || values.getDimSize(1) != k ||
      values.getElementType() != x.getElementType())
    return emitOpError() << "expected values [R, " << k << "] of " << x.getElementType() << ", got "
                         << getValues().getType();
  if (ids.getRank() != 2 || ids.getDimSize(1) != k)
    return emitOpError() << "expected ids [R, " << k << "], got " << ids;
  // topk_c3
  auto best = getBest() ? cast<MemRefType>(getBest().getType()) : MemRefType();
  if (best && (k != 1 || best.getRank() != 3 || best.isDynamicDim(1) || best.getDimSize(2) != 2 ||
               !best.getLayout().isIdentity()))
    return emitOpError() << "expected best of [R, G, 2] and k 1, got " << best << " and k " << k;
  return success();
}

SmallVector<MemRefType> TopKOp::getScratchBlocks() {
  Type element = cast<MemRefType>(getX().getType()).getElementType();
  Builder b(getContext());
  auto k = static_cast<int64_t>(getK());
  return {MemRefType::get({k}, element.isF64() ? element : b.getF32Type()),
          MemRefType::get({k}, b.getI32Type())};
}
