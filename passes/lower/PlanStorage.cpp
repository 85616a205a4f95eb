// gemma-plan-storage
//
// Input:  grouped variants; weights, caches without a layout.
// Output: every `program.weight` with layout and packed type, every ring with its pages, one
//         `program.table` a distinct rope.
//
//   program.weight @l3.gate_up : tensor<768x96xbf16> from [...]
//     -> ... layout <panel = 16, kpack = 2, interleave = 2> packed memref<48x48x16x2xbf16>
//     -> ... layout <panel = 16, kpack = 4, interleave = 2> packed memref<48x3x8x16x4xi8>   (of i8)
//     -> ... layout <panel = 8, kpack = 64, interleave = 2> packed memref<2x96x8x64xbf16>   (cuda)
//
// After gemma-form-groups, because gate and up interleave only where their activation is in the
// same group; before gemma-lower-groups, which needs the packed types.
#include "dialect/program/Layout.h"
#include "passes/Passes.h"
#include "passes/VariantPlan.h"
#include "passes/lower/Storage.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

namespace gemma::passes {
#define GEN_PASS_DEF_PLANSTORAGE
#include "passes/Passes.h.inc"
} // namespace gemma::passes

using namespace mlir;
using namespace gemma;
using namespace gemma::passes;

namespace {
/// How the nodes of all variants use one weight.
struct WeightUse {
  bool contracted = false;  ///< read by a projection
  bool interleaved = false; ///< by one whose gated activation is in its group
  bool plainPair = false;   ///< by one whose result must keep gate and up apart
};
} // namespace

static llvm::StringMap<WeightUse> collectWeightUses(ModuleOp module) {
  llvm::StringMap<WeightUse> uses;
  module.walk([&](Operation *op) {
    if (auto linear = dyn_cast<ir::LinearOp>(op)) {
      WeightUse &use = uses[linear.getWeight()];
      use.contracted = true;
      bool pair = llvm::any_of(op->getUsers(), [&](Operation *user) {
        return isa<ir::GeluMulOp, ir::SiluMulOp>(user) && user->getBlock() == op->getBlock() &&
               isa<ir::GroupOp>(op->getParentOp());
      });
      (pair ? use.interleaved : use.plainPair) = true;
    } else if (auto head = dyn_cast<ir::LmHeadOp>(op)) {
      WeightUse &use = uses[head.getWeight()];
      use.contracted = use.plainPair = true;
    }
  });
  return uses;
}

namespace gemma::passes {

program::TableOp findTable(ModuleOp module, double theta, int64_t denom, int64_t active) {
  for (auto table : module.getOps<program::TableOp>())
    if (table.getTheta().convertToDouble() == theta && int64_t(table.getDenom()) == denom &&
        int64_t(table.getActive()) == active)
      return table;
  return {};
}

} // namespace gemma::passes

/// Pages of a ring that holds the window of `maxChunk` new tokens. On CUDA devices several blocks
/// read the pages of one sequence while one of them appends its token: the page that gets it must
/// not be one that another block reads, for all the positions there that nobody sees any more.
static int64_t ringPages(program::CacheOp cache, int64_t maxChunk, Family family) {
  int64_t window = cache.getWindow(), page = cache.getPage();
  int64_t pages = llvm::divideCeil(window + maxChunk - 1, page);
  int64_t read = llvm::divideCeil(window - 1, page) + 1; // that a window may lie in
  return family == Family::Cuda ? std::max(pages, read) : pages;
}

namespace {
struct PlanStoragePass : gemma::passes::impl::PlanStorageBase<PlanStoragePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::optional<PlanLimits> limits = PlanLimits::of(module);
    auto numerics = module->getAttrOfType<ir::NumericsAttr>("gemma.numerics");
    if (!limits || !numerics) {
      module.emitError("expected gemma.limits and gemma.numerics on the module");
      return signalPassFailure();
    }
    // The family of all variants, as the layouts serve all of them.
    Family family = Family::Host;
    for (auto function : module.getOps<func::FuncOp>())
      if (std::optional<VariantPlan> plan = VariantPlan::of(function))
        family = plan->family;
    llvm::StringMap<WeightUse> uses = collectWeightUses(module);
    for (auto weight : module.getOps<program::WeightOp>()) {
      WeightUse use = uses.lookup(weight.getSymName());
      if (use.interleaved && use.plainPair) {
        weight.emitError("the variants disagree on how gate and up are laid out");
        return signalPassFailure();
      }
      auto logical = cast<RankedTensorType>(weight.getType());
      bool narrow = logical.getElementTypeBitWidth() == 16;
      bool quantised = program::isQuantised(logical.getElementType());
      if (use.contracted && family == Family::Cuda && !narrow) {
        weight.emitError() << "expected 16-bit weights for tensor cores, got " << logical;
        return signalPassFailure();
      }
      if (quantised && family == Family::Cuda) {
        weight.emitError() << "expected 16-bit weights for CUDA devices, got " << logical;
        return signalPassFailure();
      }
      int64_t panel = quantised || use.contracted ? family == Family::Cuda ? 8 : 16 : 0;
      int64_t kpack = quantised ? 4 : panel == 8 ? 64 : panel == 16 && narrow ? 2 : 1;
      auto layout = program::LayoutAttr::get(&getContext(), panel, kpack, use.interleaved ? 2 : 1);
      weight.setLayoutAttr(layout);
      weight.setPacked(program::packedType(logical, layout));
    }
    for (auto cache : module.getOps<program::CacheOp>())
      if (cache.getKind() == program::CacheKind::Ring)
        cache.setRingPages(ringPages(cache, limits->maxChunk, family));
    addTables(module, numerics.getAccumulate());
  }

  /// One table a distinct (theta, denom, active).
  void addTables(ModuleOp module, Type elem) {
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    int64_t count = 0;
    auto need = [&](double theta, int64_t denom, int64_t active) {
      if (active == 0 || findTable(module, theta, denom, active))
        return;
      program::TableOp::create(builder, module.getLoc(), "angles" + std::to_string(count++),
                               llvm::APFloat(theta), denom, active, elem);
    };
    module.walk([&](Operation *op) {
      if (auto rope = dyn_cast<ir::RopeOp>(op))
        need(rope.getTheta().convertToDouble(), rope.getDenom(), rope.getActive());
      else if (auto rope = dyn_cast<ir::RopeStdOp>(op))
        need(rope.getTheta().convertToDouble(), rope.getRot(), rope.getRot() / 2);
      else if (auto gqa = dyn_cast<ir::GqaOp>(op); gqa && gqa.getKeys())
        need(gqa.getKeys()->getTheta().getValueAsDouble(), gqa.getKeys()->getDenom(),
             gqa.getKeys()->getActive());
    });
  }
};
} // namespace
