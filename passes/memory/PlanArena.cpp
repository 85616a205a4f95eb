// gemma-plan-arena
//
// Input:  a variant whose buffers have no place.
// Output: every `program.buffer` with its `offset`, the variant with its `arena`.
//
//   %0 = program.buffer extent "T" : memref<?x96xf32>
//     -> %0 = program.buffer extent "T" offset 0 : memref<?x96xf32>
//
// A buffer lives from the first to the last launch that uses it, views included. Buffers are placed
// in order of size, largest first, each at the lowest offset that is free during its life.
// After gemma-lower-groups; nothing moves launches afterwards.
#include "passes/Passes.h"
#include "passes/VariantPlan.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

namespace gemma::passes {
#define GEN_PASS_DEF_PLANARENA
#include "passes/Passes.h.inc"
} // namespace gemma::passes

using namespace mlir;
using namespace gemma;
using namespace gemma::passes;

static constexpr int64_t kAlignment = 64;

namespace {
struct Life {
  program::BufferOp buffer;
  int64_t number = 0; ///< in program order
  int64_t bytes = 0;
  int64_t first = 0, last = 0; ///< launches
  int64_t offset = 0;
};
} // namespace

/// Launches that use `memory`, directly or through views.
static void visitUses(Value memory, const DenseMap<Operation *, int64_t> &order, Life &life) {
  for (Operation *user : memory.getUsers()) {
    if (auto view = dyn_cast<program::ViewOp>(user)) {
      visitUses(view.getMemory(), order, life);
      continue;
    }
    int64_t at = order.lookup(user);
    life.first = std::min(life.first, at);
    life.last = std::max(life.last, at);
  }
}

namespace {
struct PlanArenaPass : gemma::passes::impl::PlanArenaBase<PlanArenaPass> {
  void runOnOperation() override {
    program::VariantOp variant = getOperation();
    auto limits = PlanLimits::of(variant->getParentOfType<ModuleOp>());
    if (!limits) {
      variant.emitError("expected gemma.limits on the module");
      return signalPassFailure();
    }
    DenseMap<Operation *, int64_t> order;
    for (auto launch : variant.getBody().front().getOps<program::LaunchOp>())
      order.insert({launch, int64_t(order.size())});

    SmallVector<Life> lives;
    for (auto buffer : variant.getBody().front().getOps<program::BufferOp>()) {
      int64_t bytes = llvm::alignTo(buffer.getLargestBytes(limits->largestSizes()), kAlignment);
      Life life{buffer, int64_t(lives.size()), bytes, INT64_MAX, -1, 0};
      visitUses(buffer.getMemory(), order, life);
      lives.push_back(life);
    }
    llvm::sort(lives, [](const Life &a, const Life &b) {
      return std::tuple(-a.bytes, a.first, a.number) < std::tuple(-b.bytes, b.first, b.number);
    });
    int64_t arena = 0;
    for (auto it = lives.begin(); it != lives.end(); ++it) {
      // Neighbours in time that have a place, by offset.
      SmallVector<const Life *> busy;
      for (auto other = lives.begin(); other != it; ++other)
        if (other->first <= it->last && it->first <= other->last)
          busy.push_back(other);
      llvm::sort(busy, [](const Life *a, const Life *b) { return a->offset < b->offset; });
      for (const Life *other : busy)
        if (it->offset + it->bytes > other->offset)
          it->offset = std::max(it->offset, other->offset + other->bytes);
      it->buffer.setOffset(it->offset);
      arena = std::max(arena, it->offset + it->bytes);
    }
    variant.setArena(arena);
  }
};
} // namespace
