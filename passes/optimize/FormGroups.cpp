// gemma-form-groups
//
// Input:  a variant of step: a straight list of nodes, with tensor slices and reshapes between
// them. Output: every node inside a `gemma.group`; slices and reshapes outside, where they cost
// nothing.
//
//   %n = gemma.rmsnorm %x, @w                 %p = gemma.group {
//   %p = gemma.linear %n, @qkv           ->     %n = gemma.rmsnorm %x, @w
//                                               %0 = gemma.linear %n, @qkv
//                                               gemma.yield %0 }
//
// After gemma-make-variants, because it follows the variant's plan; before gemma-lower-groups,
// which makes one launch of a group.
#include "passes/Passes.h"
#include "passes/ShapeOps.h"
#include "passes/VariantPlan.h"

#include "mlir/IR/Builders.h"

#define DEBUG_TYPE "gemma-form-groups"

namespace gemma::passes {
#define GEN_PASS_DEF_FORMGROUPS
#include "passes/Passes.h.inc"
} // namespace gemma::passes

using namespace mlir;
using namespace gemma::ir;
using namespace gemma::passes;

static bool isContraction(Operation *op) { return isa<LinearOp, LmHeadOp>(op); }

/// Whether the row nodes before a projection become part of it. On CUDA devices every block of a
/// projection computes them, and those of the head are too many.
static bool joins(const VariantPlan &plan, Operation *projection) {
  return plan.hoistRows && (plan.family == Family::Host || isa<LinearOp>(projection));
}

/// The activation that reads all of a projection, if it is the only reader.
static Operation *fusableActivation(Operation *projection) {
  if (!isa<LinearOp>(projection) || !projection->hasOneUse())
    return nullptr;
  Operation *user = *projection->user_begin();
  return isa<GeluMulOp, SiluMulOp>(user) ? user : nullptr;
}

/// Whether a node reads one of `ops` through a slice or a reshape, which stay outside of groups.
static bool readsThroughShapeOp(Operation *node, ArrayRef<Operation *> ops) {
  for (Value operand : node->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    bool shaped = false;
    while (producer && isShapeOp(producer) && producer->getNumOperands()) {
      shaped = true;
      producer = producer->getOperand(0).getDefiningOp();
    }
    if (shaped && llvm::is_contained(ops, producer))
      return true;
  }
  return false;
}

/// Wraps `ops` (in program order) into one group at the place of the last one.
static void makeGroup(ArrayRef<Operation *> ops) {
  llvm::SmallPtrSet<Operation *, 8> inside(ops.begin(), ops.end());
  SmallVector<Value> results;
  SmallVector<Location> locations;
  for (Operation *op : ops) {
    locations.push_back(op->getLoc());
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !inside.contains(user); }))
        results.push_back(result);
  }
  OpBuilder builder(ops.back()->getContext());
  builder.setInsertionPointAfter(ops.back());
  auto group = GroupOp::create(builder, builder.getFusedLoc(locations), TypeRange(results));
  Block *body = builder.createBlock(&group.getBody());
  for (Operation *op : ops)
    op->moveBefore(body, body->end());
  builder.setInsertionPointToEnd(body);
  for (auto [inner, outer] : llvm::zip(results, group.getResults()))
    inner.replaceUsesWithIf(
        outer, [&](OpOperand &use) { return !group->isProperAncestor(use.getOwner()); });
  YieldOp::create(builder, group.getLoc(), results);
}

namespace {
struct FormGroupsPass : gemma::passes::impl::FormGroupsBase<FormGroupsPass> {
  void runOnOperation() override {
    std::optional<VariantPlan> plan = VariantPlan::of(getOperation());
    if (!plan)
      return;
    SmallVector<Operation *> nodes;
    for (Operation &op : getOperation().getBody().front().without_terminator())
      if (!isShapeOp(&op))
        nodes.push_back(&op);

    // Row nodes seen and not yet placed: they join the contraction or attention that follows, or
    // make a group of their own.
    SmallVector<Operation *> pending;
    auto flush = [&] {
      if (!pending.empty())
        makeGroup(pending);
      pending.clear();
    };
    llvm::SmallPtrSet<Operation *, 8> placed;
    for (Operation *node : nodes) {
      if (placed.contains(node))
        continue;
      if (readsThroughShapeOp(node, pending))
        flush();
      if (isContraction(node)) {
        if (!joins(*plan, node))
          flush();
        pending.push_back(node);
        if (Operation *activation = plan->fuseRows ? fusableActivation(node) : nullptr) {
          pending.push_back(activation);
          placed.insert(activation);
        }
        flush();
      } else if (isa<GqaOp>(node)) {
        if (!plan->fuseAttention)
          flush();
        pending.push_back(node);
        flush();
      } else if (isa<EmbedOp, TopKOp>(node) || !plan->fuseRows) {
        flush();
        pending.push_back(node);
        flush();
      } else {
        // Selected rows come from other blocks' rows: a launch of their own, unless every worker
        // computes all rows itself.
        if (isa<SelectRowsOp>(node) && (!plan->hoistRows || plan->family != Family::Host))
          flush();
        pending.push_back(node);
      }
    }
    flush();
  }
};
} // namespace
