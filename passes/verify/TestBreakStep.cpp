// gemma-test-break-step: makes one node of the step functions wrong, for tests of
// --verify-numerics.
#include "dialect/gemma/Gemma.h"
#include "dialect/gemma/NodeKey.h"
#include "passes/verify/VerifyNumerics.h"

#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace {
struct TestBreakStepPass : PassWrapper<TestBreakStepPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestBreakStepPass)
  TestBreakStepPass() = default;
  TestBreakStepPass(const TestBreakStepPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "gemma-test-break-step"; }
  StringRef getDescription() const override {
    return "for tests: scale the addend of a residual, or move the norm's epsilon";
  }

  void runOnOperation() override {
    bool found = false;
    getOperation().walk([&](Operation *op) {
      if (gemma::ir::nodeKey(op->getLoc()) != StringRef(node))
        return;
      auto scaled = [&](double value) { return APFloat(value * (1 + factor)); };
      if (auto residual = dyn_cast<gemma::ir::ResidualOp>(op)) {
        residual.setR(scaled(residual.getR().convertToDouble()));
        found = true;
      } else if (auto norm = dyn_cast<gemma::ir::RmsNormOp>(op)) {
        norm.setEps(scaled(norm.getEps().convertToDouble()));
        found = true;
      }
    });
    if (!found) {
      emitError(getOperation().getLoc(), "no residual or norm at ") << node.getValue();
      signalPassFailure();
    }
  }

  Option<std::string> node{*this, "node", llvm::cl::desc("spec key of the node"),
                           llvm::cl::init("layers[0].attn_residual")};
  Option<double> factor{*this, "factor", llvm::cl::desc("relative change of the constant"),
                        llvm::cl::init(1e-9)};
};
} // namespace

void gemma::passes::registerTestBreakStepPass() { PassRegistration<TestBreakStepPass>(); }
