#include "codegen/gpu/LastArrival.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace gemma::codegen::cuda {

Value LastArrival::arrive(const View &tickets, Value at, Value count) {
  // The barrier puts the stores of all threads before the first thread's fence, which with the
  // atomic is a release for the whole device, and with the fence after it an acquire; the second
  // barrier hands on what was acquired (PTX ISA, memory consistency model: causality order). So the
  // other threads need no fence of their own. (LLVM 22 drops the order of an atomic itself for
  // NVPTX.)
  b.barrier();
  b.when(b.equal(b.thread, b.index(0)), [&] {
    auto fence = [&] {
      LLVM::FenceOp::create(b, LLVM::AtomicOrdering::acq_rel, /*syncscope=*/"device");
    };
    Value last = b.sub(count, b.index(1));
    fence();
    // Counts up to `last` and then starts again at 0.
    Value before =
        LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::uinc_wrap, b.pointer(tickets, at), last,
                                  LLVM::AtomicOrdering::monotonic, "device");
    fence();
    b.storeScalar(word, b.index(0), b.select(b.equal(before, last), b.index(1), b.index(0)));
  });
  b.barrier();
  return b.equal(b.loadIndex(word, b.index(0)), b.index(1));
}

} // namespace gemma::codegen::cuda
