// gemma-verify-phase
//
// Closes a phase: says which operations should not be there any more, so that the guilty phase is
// named at once.
//
//   import:   one func @step of gemma nodes, tensor views and a return
//   optimize: variants of step; every gemma node is inside a gemma.group
//   lower:    kernels, variants and symbols; no func, no gemma op
//   memory:   as lower; every buffer placed, no written argument of a launch overlaps another
#include "passes/Passes.h"
#include "passes/ShapeOps.h"
#include "passes/VariantPlan.h"

namespace gemma::passes {
#define GEN_PASS_DEF_VERIFYPHASE
#include "passes/Passes.h.inc"
} // namespace gemma::passes

using namespace mlir;
using namespace gemma;
using namespace gemma::passes;

static LogicalResult verifyImport(ModuleOp module) {
  if (!module.lookupSymbol<func::FuncOp>("step"))
    return module.emitError("after import: expected a function @step");
  WalkResult result = module.walk([&](Operation *op) {
    if (isa<ModuleOp, func::FuncOp, func::ReturnOp>(op) ||
        isa<program::WeightOp, program::CacheOp>(op) || isShapeOp(op) ||
        (isa<ir::GemmaDialect>(op->getDialect()) && !isa<ir::GroupOp, ir::YieldOp>(op)))
      return WalkResult::advance();
    op->emitOpError("is left over after import");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

static LogicalResult verifyOptimize(ModuleOp module) {
  bool any = false;
  for (auto function : module.getOps<func::FuncOp>()) {
    any = true;
    if (!VariantPlan::of(function))
      return function.emitError(
          "after optimize: expected a variant, got a function without a plan");
    for (Operation &op : function.getBody().front().without_terminator())
      if (!isa<ir::GroupOp>(op) && !isShapeOp(&op))
        return op.emitOpError("is not in a group after optimize");
  }
  return any ? success() : LogicalResult(module.emitError("after optimize: no variant of step"));
}

static LogicalResult verifyLower(ModuleOp module) {
  for (Operation &op : *module.getBody())
    if (!isa<kernel::FuncOp>(op) && !isa<program::ProgramDialect>(op.getDialect()))
      return op.emitOpError("is left over after lower");
  if (module.getOps<program::VariantOp>().empty())
    return module.emitError("after lower: no program.variant");
  return success();
}

/// The buffer that a launch operand lies in, or null.
static program::BufferOp bufferOf(Value memory) {
  while (auto view = memory.getDefiningOp<program::ViewOp>())
    memory = view.getSource();
  return memory.getDefiningOp<program::BufferOp>();
}

static LogicalResult verifyLaunch(program::LaunchOp launch, ModuleOp module) {
  auto kernel = module.lookupSymbol<kernel::FuncOp>(launch.getKernel());
  if (!kernel)
    return launch.emitOpError("names no kernel");
  auto limits = PlanLimits::of(module);
  auto span = [&](Value memory) -> std::optional<std::pair<int64_t, int64_t>> {
    program::BufferOp buffer = bufferOf(memory);
    if (!buffer)
      return std::nullopt;
    int64_t begin = *buffer.getOffset();
    return std::pair(begin, begin + buffer.getLargestBytes(limits->largestSizes()));
  };
  for (auto [index, written] : llvm::enumerate(launch.getArguments())) {
    if (kernel.getAccess(index) == kernel::Access::Read)
      continue;
    auto mine = span(written);
    for (auto [otherIndex, other] : llvm::enumerate(launch.getArguments())) {
      if (index == otherIndex)
        continue;
      auto theirs = span(other);
      if (written == other ||
          (mine && theirs && mine->first < theirs->second && theirs->first < mine->second))
        return launch.emitOpError("writes argument ")
               << index << ", which overlaps argument " << otherIndex;
    }
  }
  return success();
}

static LogicalResult verifyMemory(ModuleOp module) {
  if (failed(verifyLower(module)))
    return failure();
  for (auto variant : module.getOps<program::VariantOp>()) {
    if (!variant.getArena())
      return variant.emitOpError("has no arena after memory");
    for (Operation &op : variant.getBody().front()) {
      if (auto buffer = dyn_cast<program::BufferOp>(op); buffer && !buffer.getOffset())
        return buffer.emitOpError("has no place after memory");
      if (auto launch = dyn_cast<program::LaunchOp>(op))
        if (failed(verifyLaunch(launch, module)))
          return failure();
    }
  }
  return success();
}

namespace {
struct VerifyPhasePass : gemma::passes::impl::VerifyPhaseBase<VerifyPhasePass> {
  using VerifyPhaseBase::VerifyPhaseBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    LogicalResult result = failure();
    if (phase == "import")
      result = verifyImport(module);
    else if (phase == "optimize")
      result = verifyOptimize(module);
    else if (phase == "lower")
      result = verifyLower(module);
    else if (phase == "memory")
      result = verifyMemory(module);
    else
      module.emitError("unknown phase '" + phase + "', expected import, optimize, lower or memory");
    if (failed(result))
      signalPassFailure();
  }
};
} // namespace
