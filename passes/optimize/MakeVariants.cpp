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
// On CUDA devices norm chains of more than 3 tokens are launches of their own, and a decode
// variant's projections compute tiles of 8, 32 or 64 tokens; blocks may share the work of decode,
// and of prefill with at most 256 tokens:
//
//   func.func @step(...)      ->  func.func @step.decode_1(...)  {T <= 1, Q <= 1}
//                                 func.func @step.decode_3(...)  {T <= 3, Q <= 1}
//                                 func.func @step.decode_8(...)  {T <= 8, Q <= 1}
//                                 func.func @step.decode_32(...) {T <= 32, Q <= 1}
//                                 func.func @step.decode(...)    {Q <= 1}
//                                 func.func @step.prefill_64(...)  {T <= 64}
//                                 func.func @step.prefill_256(...) {T <= 256}
//                                 func.func @step.prefill(...)     {}
//
// With `deterministic` nothing is shared, and all variants have the same kernels but for the tiles
// of projections, on which no result depends: a token's result is then the same bits whatever it is
// computed together with. (On the host it is so anyway: decision 0002.)
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
/// The same for CUDA devices, where every block of a projection recomputes it.
static constexpr int64_t kHoistedTokens = 3;
/// Most tokens of the smallest prefill variant, and of those whose blocks share work.
static constexpr int64_t kSmallPrefill = 64, kSharedPrefill = 256;

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
    std::optional<Family> wanted = familyOf(family);
    if (!wanted) {
      module.emitError() << "expected family host or cuda, got " << family;
      return signalPassFailure();
    }
    PlanLimits{maxContext, maxBatch, maxChunk, maxLogitRows}.attach(module);

    OpBuilder builder(step);
    for (const VariantPlan &plan : *wanted == Family::Host ? hostPlans() : cudaPlans()) {
      auto clone = cast<func::FuncOp>(builder.clone(*step));
      clone.setSymName("step." + plan.name);
      plan.attach(clone);
    }
    step.erase();
  }

private:
  /// A plan for steps of one token a sequence, at most `tokens` of them; 0: as many as the batch
  /// has.
  VariantPlan decodePlan(StringRef name, int64_t tokens) {
    MLIRContext *context = &getContext();
    VariantPlan plan;
    plan.name = name.str();
    SmallVector<AffineExpr> terms = {1 - getAffineSymbolExpr(2, context)};
    if (tokens)
      terms.insert(terms.begin(), tokens - getAffineSymbolExpr(0, context));
    else
      tokens = maxBatch;
    plan.condition = sizesWith(context, terms);
    plan.fuseAttention = plan.fuseRows = true;
    plan.maxTokens = plan.maxSequences = plan.maxLogitRows = std::min<int64_t>(tokens, maxBatch);
    return plan;
  }

  /// The plan that serves every step.
  VariantPlan anyPlan(StringRef name) {
    VariantPlan plan;
    plan.name = name.str();
    plan.condition = sizesWith(&getContext(), {});
    plan.fuseRows = fusion;
    plan.maxTokens = maxChunk;
    plan.maxSequences = maxBatch;
    plan.maxLogitRows = maxLogitRows;
    return plan;
  }

  SmallVector<VariantPlan> hostPlans() {
    if (!fusion)
      return {anyPlan("unfused")};
    SmallVector<VariantPlan> plans = {decodePlan("decode_few", kFewTokens)};
    plans.back().hoistRows = true;
    if (maxBatch > kFewTokens)
      plans.push_back(decodePlan("decode_batch", 0));
    plans.push_back(anyPlan("prefill"));
    return plans;
  }

  SmallVector<VariantPlan> cudaPlans() {
    SmallVector<VariantPlan> plans;
    // One sequence alone needs its keys split most.
    if (fusion && !deterministic)
      plans.push_back(decodePlan("decode_1", 1));
    if (fusion && !deterministic && maxBatch > 1) {
      plans.push_back(decodePlan("decode_3", kHoistedTokens));
      plans.back().minSequences = 2;
    }
    for (VariantPlan &plan : plans)
      plan.hoistRows = true;
    if (fusion)
      for (auto [name, most] :
           {std::pair<StringRef, int64_t>{"decode_8", 8}, {"decode_32", 32}, {"decode", 0}})
        if (plans.empty() || maxBatch > plans.back().maxSequences) {
          int64_t least = plans.empty() ? 1 : plans.back().maxSequences + 1;
          plans.push_back(decodePlan(name, most));
          plans.back().minSequences = least;
        }
    for (VariantPlan &plan : plans) {
      plan.tokenTile = plan.maxTokens <= 8 ? 8 : plan.maxTokens <= 32 ? 32 : 64;
      plan.splitWork = plan.fuseAttention = !deterministic;
    }
    // Few tokens leave multiprocessors idle unless they share.
    for (int64_t most : {kSmallPrefill, kSharedPrefill})
      if (fusion && most < maxChunk) {
        plans.push_back(anyPlan("prefill_" + std::to_string(most)));
        VariantPlan &plan = plans.back();
        plan.condition = sizesWith(&getContext(), {most - getAffineSymbolExpr(0, &getContext())});
        plan.maxTokens = most;
        plan.maxSequences = std::min<int64_t>(maxBatch, most);
        plan.maxLogitRows = std::min<int64_t>(maxLogitRows, most);
        plan.splitWork = !deterministic;
      }
    plans.push_back(anyPlan(fusion ? "prefill" : "unfused"));
    plans.back().splitWork = fusion && !deterministic && maxChunk <= kSharedPrefill;
    plans.back().tokenTile = fusion ? 0 : 64;
    for (VariantPlan &plan : plans)
      plan.family = Family::Cuda;
    return plans;
  }
};
} // namespace
