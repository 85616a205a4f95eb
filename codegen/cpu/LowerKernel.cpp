// kernel.func -> func.func: arguments, sizes, scratch, the hoisted ops, the loop over blocks.
#include "codegen/cpu/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace gemma::codegen {
namespace {

Value loadAt(KernelBuilder &b, Value base, int64_t byteOffset, Type type) {
  Value address = LLVM::GEPOp::create(b, base.getType(), b.getI8Type(), base,
                                      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(byteOffset)});
  return LLVM::LoadOp::create(b, type, address);
}

/// Loads the step's sizes, the argument pointers and the state of the scratch: struct GemmaArgs of
/// runtime/abi/KernelAbi.h.
void emitArguments(KernelBuilder &b, kernel::FuncOp kernel, Value args) {
  Type pointer = args.getType();
  Value sizes = loadAt(b, args, 0, pointer);
  for (int64_t i = 0; i < 5; ++i)
    b.sizes.push_back(
        arith::IndexCastOp::create(b, b.getIndexType(), loadAt(b, sizes, 8 * i, b.getI64Type())));
  b.unprepared =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, loadAt(b, args, 16, b.getI64Type()),
                            b.integer(b.getI64Type(), 0));
  Value table = loadAt(b, args, 8, pointer);
  for (BlockArgument argument : kernel.getBody().getArguments()) {
    auto type = dyn_cast<MemRefType>(argument.getType());
    auto strided = [&] {
      SmallVector<int64_t> strides;
      int64_t offset;
      return succeeded(type.getStridesAndOffset(strides, offset)) && offset == 0 &&
             llvm::none_of(strides, ShapedType::isDynamic) &&
             llvm::none_of(type.getShape().drop_front(type.getRank() ? 1 : 0),
                           ShapedType::isDynamic);
    };
    if (!type || !type.getElementType().isIntOrFloat() || !strided()) {
      b.fail(kernel, "expected argument " + Twine(argument.getArgNumber()) +
                         " to be a memref of numbers with static strides, got " +
                         llvm::formatv("{0}", argument.getType()).str());
      return;
    }
    Value base = loadAt(b, table, 8 * int64_t(argument.getArgNumber()), pointer);
    b.views[argument] = b.makeView(base, type);
  }
}

void emitOps(KernelBuilder &b, Block &block) {
  bool inGrid = isa<kernel::GridOp>(block.getParentOp());
  auto emit = [&](bool always, auto op, auto lower) {
    if (inGrid || always)
      lower(b, op);
    else
      b.when(b.isFirstOfWorker(Value()), [&] { lower(b, op); });
  };
  for (Operation &op : block) {
    b.setLoc(op.getLoc());
    llvm::TypeSwitch<Operation *>(&op)
        .Case([&](kernel::ScratchOp scratch) {
          b.views[scratch.getMemory()] = b.scratch(scratch.getScratchBlocks().front());
        })
        .Case([&](kernel::GridOp grid) {
          b.loop(b.begin, b.end, 1, [&](Value block) {
            b.values.map(grid.getBlockIndex(), block);
            emitOps(b, grid.getBody().front());
          });
        })
        // The range of block 0 stores what `once` says, whatever it finds in the scratch.
        .Case([&](kernel::RowsOp rows) { emit(rows.getOnce(), rows, lowerRows); })
        .Case([&](kernel::QuantizeOp quantize) { emit(false, quantize, lowerQuantize); })
        .Case([&](kernel::ContractOp contract) { lowerContract(b, contract); })
        .Case([&](kernel::AttentionOp attention) { lowerAttention(b, attention); })
        .Case([&](kernel::TopKOp topk) { lowerTopK(b, topk); })
        .Case<kernel::ReturnOp, kernel::EndOp>([](auto) {})
        .Default([&](Operation *other) {
          if (isa<arith::ArithDialect>(other->getDialect()))
            b.clone(*other, b.values);
          else
            b.fail(other, "is not a core op: host kernels cannot hold it");
        });
    if (b.failed)
      return;
  }
}

} // namespace

FailureOr<LoweredKernel> lowerKernel(kernel::FuncOp kernel, const HostIsa &isa,
                                     OpBuilder &builder) {
  Location loc = kernel.getLoc();
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64 = builder.getI64Type();
  auto function = func::FuncOp::create(builder, loc, kernel.getSymName(),
                                       builder.getFunctionType({pointer, i64, i64, pointer}, {}));
  OpBuilder::InsertionGuard guard(builder);
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);

  KernelBuilder b(loc, builder, isa);
  b.scratchBase = entry->getArgument(3);
  b.begin = arith::IndexCastOp::create(b, b.getIndexType(), entry->getArgument(1));
  b.end = arith::IndexCastOp::create(b, b.getIndexType(), entry->getArgument(2));
  emitArguments(b, kernel, entry->getArgument(0));
  if (!b.failed)
    emitOps(b, kernel.getBody().front());
  b.setLoc(loc);
  func::ReturnOp::create(b);
  // The memory plan was made without the code.
  if (!b.failed && b.scratchBytes != kernel.getScratchBytes())
    b.fail(kernel, "was planned with " + Twine(kernel.getScratchBytes()) +
                       " bytes of scratch, its code takes " + Twine(b.scratchBytes));
  if (b.failed) {
    function.erase();
    return failure();
  }
  return LoweredKernel{function, b.scratchBytes};
}

} // namespace gemma::codegen
