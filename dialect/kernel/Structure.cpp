// Verifiers of kernels and their grids.
#include "dialect/kernel/Kernel.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace gemma::kernel;

void gemma::kernel::forEachAccess(Operation *op, llvm::function_ref<void(Value, Access)> use) {
  auto all = [&](ValueRange memories, Access access) {
    for (Value memory : memories)
      use(memory, access);
  };
  // What several blocks work on together.
  auto shared = [&](Value partials, Value tickets) {
    if (partials)
      use(partials, Access::ReadWrite);
    if (tickets)
      use(tickets, Access::ReadWrite);
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](RowsOp rows) {
        all(rows.getInputs(), Access::Read);
        all(rows.getLookups(), Access::Read);
        all(rows.getOutputs(), Access::Write);
      })
      .Case([&](QuantizeOp quantize) {
        use(quantize.getX(), Access::Read);
        all({quantize.getCodes(), quantize.getScales(), quantize.getStarts()}, Access::Write);
      })
      .Case([&](ContractOp contract) {
        all({contract.getAct(), contract.getWeight()}, Access::Read);
        all(contract.getQuantised(), Access::Read);
        use(contract.getOut(), Access::Write);
        shared(contract.getPartials(), contract.getTickets());
        if (contract.getBest())
          use(contract.getBest(), Access::Write);
      })
      .Case([&](AttentionOp attention) {
        if (attention.getKCache())
          use(attention.getKCache(), Access::Read);
        all(attention.getKeyParts(), Access::Read);
        all(attention.getCacheScales(), Access::Read);
        all({attention.getQ(), attention.getVCache(), attention.getRowStarts(),
             attention.getSeqLens(), attention.getSlots(), attention.getPageTable()},
            Access::Read);
        use(attention.getOut(), Access::Write);
        shared(attention.getPartials(), attention.getTickets());
      })
      .Case([&](TopKOp topk) {
        use(topk.getX(), Access::Read);
        if (topk.getBest())
          use(topk.getBest(), Access::Read);
        all({topk.getValues(), topk.getIds()}, Access::Write);
      });
}

//===----------------------------------------------------------------------===//
// Scratch
//===----------------------------------------------------------------------===//

int64_t gemma::kernel::scratchBytesOf(MemRefType block) {
  return static_cast<int64_t>(llvm::alignTo(
      static_cast<uint64_t>(block.getNumElements() * block.getElementTypeBitWidth() / 8), 64));
}

int64_t FuncOp::getScratchBytes() {
  int64_t bytes = 0;
  walk([&](ScratchOpInterface op) {
    for (MemRefType block : op.getScratchBlocks())
      bytes += scratchBytesOf(block);
  });
  return bytes;
}

SmallVector<MemRefType> ScratchOp::getScratchBlocks() {
  return {cast<MemRefType>(getMemory().getType())};
}

//===----------------------------------------------------------------------===//
// FuncOp and GridOp
//===----------------------------------------------------------------------===//

LogicalResult FuncOp::verify() {
  // func_c1
  AffineMap grid = getGrid();
  if (grid.getNumDims() != 0 || grid.getNumSymbols() != 5 || grid.getNumResults() != 1)
    return emitOpError() << "expected a grid of 0 dimensions, 5 symbols and 1 result, got "
                         << grid.getNumDims() << ", " << grid.getNumSymbols() << " and "
                         << grid.getNumResults();
  for (auto [index, type] : llvm::enumerate(getArgumentTypes())) {
    // func_c2
    auto memref = dyn_cast<MemRefType>(type);
    if (!memref || llvm::any_of(memref.getShape().drop_front(memref.getRank() > 0 ? 1 : 0),
                                ShapedType::isDynamic))
      return emitOpError() << "expected argument " << index
                           << " to be a memref of which only the first dimension is dynamic, got "
                           << type;
    // func_c3
    if (!getArgAttrOfType<AccessAttr>(static_cast<unsigned>(index), "kernel.access"))
      return emitOpError() << "expected kernel.access on argument " << index;
  }
  // func_c4
  auto grids = getBody().front().getOps<GridOp>();
  if (std::distance(grids.begin(), grids.end()) > 1)
    return emitOpError() << "expected one kernel.grid, got "
                         << std::distance(grids.begin(), grids.end());
  // func_c5
  Block &body = getBody().front();
  if (body.empty() || !isa<ReturnOp>(body.back()))
    return emitOpError() << "expected to end with kernel.return";
  // func_c7
  if (getLaunch())
    for (Operation &op : body)
      if (!isa<GridOp, ScratchOp, RowsOp, ReturnOp>(op) &&
          !isa<arith::ArithDialect>(op.getDialect()))
        return op.emitOpError()
               << "lies outside kernel.grid, where a GPU kernel has only rows and scratch";
  return success();
}

LogicalResult FuncOp::verifyRegions() {
  // func_c6
  WalkResult result = walk([&](Operation *op) {
    bool valid = true;
    forEachAccess(op, [&](Value memory, Access access) {
      auto argument = dyn_cast<BlockArgument>(memory);
      if (!argument || argument.getOwner() != &getBody().front())
        return;
      Access declared = getAccess(argument.getArgNumber());
      if (declared == access || declared == Access::ReadWrite)
        return;
      op->emitOpError() << (access == Access::Read    ? "reads"
                            : access == Access::Write ? "writes"
                                                      : "reads and writes")
                        << " argument " << argument.getArgNumber()
                        << " of the kernel, which is declared " << stringifyAccess(declared);
      valid = false;
    });
    return valid ? WalkResult::advance() : WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult GridOp::verify() {
  // grid_c1
  if (getBody().getNumArguments() != 1 || !getBody().getArgument(0).getType().isIndex())
    return emitOpError() << "expected one block argument, an index";
  return success();
}
