// kernel.contract and kernel.quantize: their verifiers, and the scratch of the former.
#include "dialect/kernel/CoreOps.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace gemma::kernel;

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
static int64_t mostDepth(int64_t bytes) {
  constexpr int64_t weightBytes = 16384;
  return weightBytes / (16 * bytes);
}

/// k of a block: blocks are about equally deep, and whole groups of 32.
static int64_t equalDepth(int64_t depth, int64_t bytes) {
  int64_t most = mostDepth(bytes), blocks = (depth + most - 1) / most;
  return static_cast<int64_t>(
      llvm::alignTo(static_cast<uint64_t>((depth + blocks - 1) / blocks), 32));
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
    int64_t depth = equalDepth(act.getDimSize(1), bytes);
    blocks = {MemRefType::get({rows, panels * 16}, compute),
              MemRefType::get({rows, depth + line / bytes}, compute),
              MemRefType::get({prepared, depth, 16}, compute)};
  } else if (isBlocked()) {
    // Not equal blocks: 16 groups' scales are whole vectors.
    int64_t depth = std::min(act.getDimSize(1), mostDepth(2));
    blocks = {MemRefType::get({rows, panels * 16}, compute),
              MemRefType::get({rows, depth + line / 2}, integer(16)),
              MemRefType::get({rows, depth / 32}, compute),
              MemRefType::get({prepared, depth / 32, 16, 64}, integer(8)),
              MemRefType::get({prepared, depth / 32, 16}, compute),
              MemRefType::get({prepared, depth / 32, 16}, integer(32))};
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
