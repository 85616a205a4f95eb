// gemma-make-variants
//
// Input:  a module with one `func.func @step`.
// Output: one clone a launch sequence, each with its plan (`gemma.variant`); the module carries
//         `gemma.limits`; `@step` is gone. The order of the clones is the order in which their
//         conditions are tried; the last one's always holds.
//
//   func.func @step(...)      ->  func.func @step.decode_few(...)   {T <= 8, Q <= 1}
//                                 func.func @step.decode_batch(...) {Q <= 1}
//                                 func.func @step.prefill(...)      {}
//
// Before gemma-form-groups, because grouping follows a variant's plan.
#include "passes/Passes.h"
#include "passes/VariantPlan.h"

#include "mlir/IR/Builders.h"

namespace gemma::passes {
#define GEN_PASS_DEF_MAKEVARIANTS
#include "passes/Passes.h.inc"
} // namespace gemma::passes

using namespace mlir;
using namespace gemma::passes;

/// Rows up to which recomputing a norm chain in every projection is cheaper than a launch of its
/// own.
static constexpr int64_t kFewTokens = 8;

/// The set of sizes with `terms` all >= 0.
static IntegerSet sizesWith(MLIRContext *context, ArrayRef<AffineExpr> terms) {
  SmallVector<bool> equalities(terms.size(), false);
  if (terms.empty()) // always: 0 == 0
    return IntegerSet::get(0, 5, getAffineConstantExpr(0, context), true);
  return IntegerSet::get(0, 5, terms, equalities);
}

namespace {
struct MakeVariantsPass : gemma::passes::impl::MakeVariantsBase<MakeVariantsPass> {
  using MakeVariantsBase::MakeVariantsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>("step");
    if (!step) {
      module.emitError("expected a function @step");
      return signalPassFailure();
    }
    PlanLimits{maxContext, maxBatch, maxChunk, maxLogitRows}.attach(module);

    MLIRContext *context = &getContext();
    AffineExpr tokens = getAffineSymbolExpr(0, context);
    AffineExpr longestRun = getAffineSymbolExpr(2, context);
    SmallVector<VariantPlan> plans;
    if (fusion) {
      VariantPlan few{"decode_few",
                      sizesWith(context, {kFewTokens - tokens, 1 - longestRun}),
                      /*hoistRows=*/true,
                      /*fuseAttention=*/true,
                      /*fuseRows=*/true,
                      std::min<int64_t>(kFewTokens, maxBatch),
                      std::min<int64_t>(kFewTokens, maxBatch),
                      std::min<int64_t>(kFewTokens, maxBatch)};
      plans.push_back(few);
      if (maxBatch > kFewTokens) {
        VariantPlan batch = few;
        batch.name = "decode_batch";
        batch.condition = sizesWith(context, {1 - longestRun});
        batch.hoistRows = false;
        batch.maxTokens = batch.maxSequences = batch.maxLogitRows = maxBatch;
        plans.push_back(batch);
      }
      plans.push_back({"prefill", sizesWith(context, {}), false, false, true, maxChunk, maxBatch,
                       maxLogitRows});
    } else {
      plans.push_back({"unfused", sizesWith(context, {}), false, false, false, maxChunk, maxBatch,
                       maxLogitRows});
    }

    OpBuilder builder(step);
    for (const VariantPlan &plan : plans) {
      auto clone = cast<func::FuncOp>(builder.clone(*step));
      clone.setSymName("step." + plan.name);
      plan.attach(clone);
    }
    step.erase();
  }
};
} // namespace
