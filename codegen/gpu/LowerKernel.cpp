// kernel.func -> gpu.module with one gpu.func: arguments, sizes, shared memory, then the rows
// before the grid and the grid's ops, with a barrier between one and the next. What a contraction
// copies first is on its way before all of them.
#include "codegen/gpu/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace gemma::codegen::cuda {
namespace {

/// LLVM's data layout of nvptx64: without it 64-bit stores are split.
constexpr const char *dataLayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64";
constexpr const char *sharedName = "gemma_shared";

/// Dynamic shared memory: an array of no declared size in the module.
Value emitSharedMemory(GpuBuilder &b, gpu::GPUModuleOp module) {
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getI8Type(), 0), /*isConstant=*/false,
                           LLVM::Linkage::External, sharedName, Attribute(),
                           /*alignment=*/1024, sharedSpace);
  }
  return LLVM::AddressOfOp::create(b, LLVM::LLVMPointerType::get(b.getContext(), sharedSpace),
                                   sharedName);
}

void emitSizes(GpuBuilder &b, Value sizes) {
  for (int32_t i = 0; i < 5; ++i) {
    Value address =
        LLVM::GEPOp::create(b, sizes.getType(), b.getI64Type(), sizes, ArrayRef<LLVM::GEPArg>{i});
    Value wide = b.loadAt(address, b.getI64Type(), 8);
    b.sizes.push_back(arith::TruncIOp::create(b, b.getI32Type(), wide));
  }
}

void bindArguments(GpuBuilder &b, kernel::FuncOp kernel, ValueRange pointers) {
  for (auto [argument, pointer] : llvm::zip_equal(kernel.getBody().getArguments(), pointers)) {
    auto type = dyn_cast<MemRefType>(argument.getType());
    SmallVector<int64_t> strides;
    int64_t offset = 0;
    if (!type || !type.getElementType().isIntOrFloat() ||
        failed(type.getStridesAndOffset(strides, offset)) || offset != 0 ||
        llvm::any_of(strides, ShapedType::isDynamic) || type.getElementTypeBitWidth() % 8 != 0) {
      b.fail(kernel, "expected argument " + Twine(argument.getArgNumber()) +
                         " to be a memref of numbers with static strides, got " +
                         llvm::formatv("{0}", argument.getType()).str());
      return;
    }
    bool constant =
        type.hasStaticShape() && kernel.getAccess(argument.getArgNumber()) == kernel::Access::Read;
    b.views[argument] = {pointer, type, constant};
  }
}

bool isCoreOp(Operation &op) {
  return isa<kernel::RowsOp, kernel::ContractOp, kernel::AttentionOp, kernel::TopKOp>(op);
}

void emitScratch(GpuBuilder &b, kernel::ScratchOp scratch) {
  auto type = cast<MemRefType>(scratch.getMemory().getType());
  b.views[scratch.getMemory()] = b.shared(type.getShape(), type.getElementType());
}

/// The names in a location, which are nodes of the spec.
void collectNames(Location loc, llvm::SetVector<StringRef> &names) {
  if (auto name = dyn_cast<NameLoc>(loc))
    names.insert(name.getName());
  else if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      collectNames(part, names);
}

std::string nodeOf(Operation &op) {
  llvm::SetVector<StringRef> names;
  collectNames(op.getLoc(), names);
  return names.empty() ? op.getName().getStringRef().str() : llvm::join(names, " + ");
}

/// Core ops outside of the grid, which every block runs, then those of the grid.
SmallVector<Operation *> opsOfBlock(kernel::FuncOp kernel, kernel::GridOp grid) {
  SmallVector<Operation *> ops;
  for (Operation &op : kernel.getBody().front())
    if (isa<kernel::RowsOp>(op))
      ops.push_back(&op);
  for (Operation &op : grid.getBody().front().without_terminator())
    ops.push_back(&op);
  return ops;
}

class BlockLowering {
public:
  BlockLowering(GpuBuilder &b, kernel::FuncOp kernel, kernel::GridOp grid)
      : b(b), kernel(kernel), ops(opsOfBlock(kernel, grid)) {}

  void run(std::vector<std::string> &nodes) {
    for (Operation *op : ops)
      if (isCoreOp(*op)) {
        nodes.push_back(nodeOf(*op));
        auto line = FileLineColLoc::get(kernel.getSymNameAttr(), unsigned(nodes.size()), 0);
        lines.try_emplace(op, NameLoc::get(b.getStringAttr(nodes.back()), line));
      }
    for (Operation *op : ops) {
      // Blocks that share a sequence's keys make the queries too; those without keys need none.
      if (auto found = dyn_cast<kernel::AttentionOp>(op)) {
        b.setLoc(lines.at(op));
        attention.emplace(b, found);
        Value hasWork = attention->findWork();
        if (!b.failed)
          b.when(hasWork, [&] { emitOps(); });
        return;
      }
      if (auto found = dyn_cast<kernel::ContractOp>(op)) {
        if (!checkFetched(found))
          return;
        b.setLoc(lines.at(op));
        contraction.emplace(b, found);
        contraction->fetch();
      }
    }
    if (!b.failed)
      emitOps();
  }

private:
  /// Whether what a contraction fetches before all other ops is what it finds after them.
  bool checkFetched(kernel::ContractOp op) {
    for (Operation *other : ops) {
      if (other != op && isa<kernel::ContractOp, kernel::AttentionOp>(other)) {
        b.fail(other, "lies beside a kernel.contract: a GPU kernel has one of them");
        return false;
      }
      bool changes = false;
      kernel::forEachAccess(other, [&](Value memory, kernel::Access access) {
        bool fetched = memory == op.getWeight() || (memory == op.getAct() && !op.hasPreparedRows());
        changes |= other != op && fetched && access != kernel::Access::Read;
      });
      if (changes) {
        b.fail(other, "writes what a kernel.contract of the same GPU kernel copies before it");
        return false;
      }
    }
    return true;
  }

  void emitOps() {
    bool afterCoreOp = false;
    for (Operation *op : ops) {
      if (isCoreOp(*op)) {
        b.setLoc(lines.at(op));
        // What one op wrote, in shared or global memory, the next one may read.
        if (afterCoreOp)
          b.barrier();
        afterCoreOp = true;
      }
      llvm::TypeSwitch<Operation *>(op)
          .Case([&](kernel::ScratchOp scratch) { emitScratch(b, scratch); })
          .Case([&](kernel::RowsOp rows) { lowerRows(b, rows); })
          .Case([&](kernel::ContractOp) { contraction->emit(); })
          .Case([&](kernel::AttentionOp) { attention->emit(); })
          .Case([&](kernel::TopKOp topk) { lowerTopK(b, topk); })
          .Default([&](Operation *other) {
            b.fail(other, "is not a core op: GPU kernels cannot hold it");
          });
      if (b.failed)
        return;
    }
  }

  GpuBuilder &b;
  kernel::FuncOp kernel;
  SmallVector<Operation *> ops;
  /// Where each core op's code is said to come from.
  llvm::DenseMap<Operation *, Location> lines;
  std::optional<Attention> attention;
  std::optional<Contraction> contraction;
};

void emitBody(GpuBuilder &b, kernel::FuncOp kernel, std::vector<std::string> &nodes) {
  for (auto scratch : kernel.getBody().front().getOps<kernel::ScratchOp>())
    emitScratch(b, scratch);
  for (auto grid : kernel.getBody().front().getOps<kernel::GridOp>()) {
    Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
    b.block = arith::IndexCastOp::create(b, b.getI32Type(), block);
    b.values.map(grid.getBlockIndex(), b.block);
    Value blocks = b.apply(kernel.getGrid().getResult(0), {}, b.sizes);
    b.when(b.less(b.block, blocks), [&] { BlockLowering(b, kernel, grid).run(nodes); });
  }
}

} // namespace

/// Blocks that a multiprocessor shall hold at once, where the assembler left to itself aims for
/// more and spills: of a projection with 8 warps one where tiles are as large as its registers,
/// else two; of rows three, of rows of heads, which are kept whole by a warp each, one.
static std::optional<int32_t> residentBlocks(kernel::FuncOp kernel) {
  if (kernel.getLaunchAttr().getThreads() != 256)
    return std::nullopt;
  std::optional<int32_t> blocks = 3;
  AffineExpr one = getAffineConstantExpr(1, kernel.getContext());
  kernel.walk([&](Operation *op) {
    if (auto rows = dyn_cast<kernel::RowsOp>(op); rows && rows.getDomain().getResult(3) != one)
      blocks = 1;
    if (auto contract = dyn_cast<kernel::ContractOp>(op); contract && contract.getGpuTile())
      blocks = contract.getGpuTileAttr().getTokens() > 32 ? 1 : 2;
    else if (isa<kernel::AttentionOp, kernel::TopKOp>(op))
      blocks = std::nullopt;
  });
  return blocks;
}

FailureOr<gpu::GPUModuleOp> lowerKernel(kernel::FuncOp kernel, OpBuilder &builder,
                                        std::vector<std::string> *nodes) {
  // Nothing of where the kernel was written shows in its code.
  Location loc = FileLineColLoc::get(kernel.getSymNameAttr(), 0, 0);
  kernel::LaunchAttr launch = kernel.getLaunchAttr();
  if (!launch) {
    kernel.emitOpError("has no launch: it is not a GPU kernel");
    return failure();
  }
  if (launch.getProducers() != 0) {
    kernel.emitOpError("has ")
        << launch.getProducers()
        << " producer warps: all warps of a portable kernel copy and compute";
    return failure();
  }
  OpBuilder::InsertionGuard guard(builder);
  auto module = gpu::GPUModuleOp::create(builder, loc, kernel.getSymName());
  module->setAttr("llvm.data_layout", builder.getStringAttr(dataLayout));
  builder.setInsertionPointToStart(module.getBody());

  // One pointer an argument, and the sizes.
  SmallVector<Type> arguments(kernel.getArgumentTypes().size() + 1,
                              LLVM::LLVMPointerType::get(builder.getContext(), globalSpace));
  auto function = gpu::GPUFuncOp::create(builder, loc, kernel.getSymName(),
                                         builder.getFunctionType(arguments, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  auto threads = static_cast<int32_t>(launch.getThreads());
  function.setKnownBlockSizeAttr(builder.getDenseI32ArrayAttr({threads, 1, 1}));
  if (std::optional<int32_t> blocks = residentBlocks(kernel))
    function->setAttr("nvvm.minctasm", builder.getI32IntegerAttr(*blocks));
  builder.setInsertionPointToStart(&function.getBody().front());

  GpuBuilder b(loc, builder, launch.getThreads());
  b.sharedBase = emitSharedMemory(b, module);
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  b.thread = arith::IndexCastOp::create(b, b.getI32Type(), thread);
  b.lane = b.mod(b.thread, 32);
  b.warp = b.floorDiv(b.thread, 32);
  emitSizes(b, function.getArguments().back());
  bindArguments(b, kernel, function.getArguments().drop_back());
  std::vector<std::string> names;
  if (!b.failed)
    emitBody(b, kernel, names);
  if (nodes)
    *nodes = std::move(names);
  b.setLoc(loc);
  gpu::ReturnOp::create(b);
  if (!b.failed && b.sharedPeak > launch.getShared())
    b.fail(kernel, "expected launch to give at least " + Twine(b.sharedPeak) +
                       " bytes of shared memory, got " + Twine(launch.getShared()));
  if (b.failed) {
    module.erase();
    return failure();
  }
  return module;
}

} // namespace gemma::codegen::cuda
