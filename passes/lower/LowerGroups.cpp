// gemma-lower-groups
//
// Input:  grouped variants of step; weights with layouts, caches with rings, tables.
// Output: one `program.variant` a variant, one `kernel.func` a distinct group; no func and no gemma
//         op is left.
//
//   func.func @step.prefill {gemma.variant = ...} { %p = gemma.group { gemma.linear %n, @qkv } }
//     -> kernel.func @attn_qkv_proj_1a2b3c4d(...) grid (4) { ... kernel.contract ... }
//        program.variant @prefill target "host" when (...) {
//          %0 = program.buffer extent "T" : memref<?x128xf32>
//          program.launch @attn_qkv_proj_1a2b3c4d(...) }
//
// After gemma-plan-storage, because kernels see packed weights; before gemma-plan-arena, which
// places the buffers.
#include "passes/Passes.h"
#include "passes/ShapeOps.h"
#include "passes/lower/GroupLowering.h"

namespace gemma::passes {
#define GEN_PASS_DEF_LOWERGROUPS
#include "passes/Passes.h.inc"
} // namespace gemma::passes

using namespace mlir;
using namespace gemma;
using namespace gemma::passes;

static LogicalResult lowerVariant(ModuleOp module, func::FuncOp function, const VariantPlan &plan,
                                  const PlanLimits &limits) {
  OpBuilder builder(function);
  auto variant =
      program::VariantOp::create(builder, function.getLoc(), builder.getStringAttr(plan.name),
                                 builder.getStringAttr(familyName(plan.family)),
                                 IntegerSetAttr::get(plan.condition), IntegerAttr());
  builder.createBlock(&variant.getBody());
  VariantMemory memory(module, variant, limits);
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (auto group = dyn_cast<ir::GroupOp>(op)) {
      if (failed(GroupLowering(group, memory, plan).run()))
        return failure();
    } else if (!isShapeOp(&op)) {
      return op.emitOpError("is not in a group");
    }
  }
  function.erase();
  return success();
}

namespace {
struct LowerGroupsPass : gemma::passes::impl::LowerGroupsBase<LowerGroupsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::optional<PlanLimits> limits = PlanLimits::of(module);
    if (!limits) {
      module.emitError("expected gemma.limits on the module");
      return signalPassFailure();
    }
    for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (std::optional<VariantPlan> plan = VariantPlan::of(function))
        if (failed(lowerVariant(module, function, *plan, *limits)))
          return signalPassFailure();
  }
};
} // namespace
