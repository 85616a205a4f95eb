#include "passes/verify/VerifyNumerics.h"

#include "passes/Passes.h"
#include "passes/verify/StepRunner.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"

#include <cmath>
#include <memory>
#include <set>

using namespace mlir;

namespace gemma::passes {

using NamedTensor = std::pair<std::string, reference::Tensor>;

namespace {
/// What the instrumentation and the last pass share.
struct NumericsState {
  NumericsOptions options;
  /// What a function computed before the next pass: [0] with the prefill step, [1] token by token.
  /// Variants that are new come from "step".
  std::map<std::string, std::array<StepTrace, 2>> expected;
  int64_t passesChecked = 0;
  std::set<std::string> functionsChecked;
  std::string failure; ///< the first one
  bool skipped = false;
};

/// Runs the step functions after each pass.
class NumericsInstrumentation : public PassInstrumentation {
public:
  explicit NumericsInstrumentation(std::shared_ptr<NumericsState> state)
      : state(std::move(state)) {}

  void runBeforePass(Pass *pass, Operation *op) override;
  void runAfterPass(Pass *pass, Operation *op) override;

private:
  /// The functions of `op` to look at: those of a module, or itself.
  SmallVector<func::FuncOp> stepFunctions(Operation *op) const;
  bool tooLarge(ModuleOp module);
  Expected<std::array<StepTrace, 2>> trace(func::FuncOp function);
  void check(Pass *pass, func::FuncOp function);

  std::shared_ptr<NumericsState> state;
};

/// Fails if a check did, else says what was checked.
struct NumericsResultPass : PassWrapper<NumericsResultPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NumericsResultPass)
  NumericsResultPass() = default;
  explicit NumericsResultPass(std::shared_ptr<NumericsState> state) : state(std::move(state)) {}

  StringRef getName() const override { return "NumericsResult"; }
  void runOnOperation() override {
    if (!state->failure.empty())
      return signalPassFailure();
    if (state->passesChecked)
      emitRemark(getOperation().getLoc())
          << "verify-numerics: " << state->passesChecked << " passes changed nothing that "
          << state->functionsChecked.size() << " step functions compute";
    else if (!state->skipped)
      emitRemark(getOperation().getLoc(),
                 "verify-numerics: no pass ran on a step function, nothing was "
                 "checked");
  }

  std::shared_ptr<NumericsState> state;
};
} // namespace

SmallVector<func::FuncOp> NumericsInstrumentation::stepFunctions(Operation *op) const {
  SmallVector<func::FuncOp> functions;
  auto add = [&](func::FuncOp function) {
    if (!function.isExternal() && (function.getSymName() == "step" || VariantPlan::of(function)))
      functions.push_back(function);
  };
  if (auto function = dyn_cast<func::FuncOp>(op))
    add(function);
  else if (auto module = dyn_cast<ModuleOp>(op))
    llvm::for_each(module.getOps<func::FuncOp>(), add);
  return functions;
}

bool NumericsInstrumentation::tooLarge(ModuleOp module) {
  int64_t weights = StepShape::of(module).weights;
  if (weights <= state->options.maxWeights)
    return false;
  if (!std::exchange(state->skipped, true))
    emitRemark(module.getLoc()) << "verify-numerics: skipped, the module has " << weights
                                << " weights, more than " << state->options.maxWeights;
  return true;
}

Expected<std::array<StepTrace, 2>> NumericsInstrumentation::trace(func::FuncOp function) {
  auto module = function->getParentOfType<ModuleOp>();
  StepShape shape = StepShape::of(module);
  std::optional<VariantPlan> plan = VariantPlan::of(function);
  std::array<StepTrace, 2> traces;
  for (bool single : {false, true}) {
    StepSchedule schedule = randomSchedule(state->options.seed, shape, single);
    if (plan && plan->condition && !schedule.satisfies(plan->condition))
      continue; // the variant never sees such a step
    auto run = traceStep(module, function.getSymName(), schedule, state->options.seed);
    if (!run)
      return run.status();
    traces[single] = *std::move(run);
    if (plan)
      break; // only @step's must be known for both, as its variants' conditions are not yet
  }
  return traces;
}

void NumericsInstrumentation::runBeforePass(Pass *, Operation *op) {
  if (!state->failure.empty())
    return;
  for (func::FuncOp function : stepFunctions(op)) {
    if (state->expected.contains(function.getSymName().str()) ||
        (state->expected.contains("step") && VariantPlan::of(function)))
      continue;
    if (tooLarge(function->getParentOfType<ModuleOp>()))
      return;
    Expected<std::array<StepTrace, 2>> traces = trace(function);
    if (!traces) {
      state->failure = traces.error().message;
      emitError(function.getLoc())
          << "verify-numerics: cannot run @" << function.getSymName() << ": " << state->failure;
      return;
    }
    state->expected[function.getSymName().str()] = *std::move(traces);
  }
}

/// max|got - expected| / max|expected|; 0 only if every bit is the same.
static double distance(const reference::Tensor &got, const reference::Tensor &expected) {
  if (got.shape != expected.shape)
    return INFINITY;
  double largest = 0, worst = 0;
  for (size_t i = 0; i < got.data.size(); ++i) {
    if (llvm::bit_cast<uint64_t>(got.data[i]) == llvm::bit_cast<uint64_t>(expected.data[i]))
      continue;
    double difference = std::fabs(got.data[i] - expected.data[i]);
    // Signs of zero and NaN: not a number that a bound could allow.
    if (!(difference > 0))
      return INFINITY;
    worst = std::max(worst, difference);
  }
  for (double value : expected.data)
    largest = std::max(largest, std::fabs(value));
  return worst == 0 ? 0 : worst / largest;
}

/// The first node of both whose tensors differ; empty if there is none.
static std::string firstDifference(const std::vector<NamedTensor> &got,
                                   const std::vector<NamedTensor> &expected) {
  std::map<std::string, const reference::Tensor *> known;
  for (const auto &[name, tensor] : expected)
    known.emplace(name, &tensor);
  for (const auto &[name, tensor] : got)
    if (auto found = known.find(name);
        found != known.end() && distance(tensor, *found->second) != 0)
      return name;
  return "";
}

void NumericsInstrumentation::check(Pass *pass, func::FuncOp function) {
  std::string name = function.getSymName().str();
  auto before = state->expected.find(name);
  if (before == state->expected.end())
    before = state->expected.find("step");
  if (before == state->expected.end())
    return;
  std::string passName =
      (pass->getArgument().empty() ? pass->getName() : pass->getArgument()).str();
  auto fail = [&](const std::string &what) {
    state->failure = what;
    emitError(function.getLoc()) << "verify-numerics: " << passName << ": @" << name << ": "
                                 << what;
  };
  Expected<std::array<StepTrace, 2>> after = trace(function);
  if (!after)
    return fail("cannot be run any more: " + after.error().message);
  auto bound = state->options.bounds.find(passName);
  double allowed = bound == state->options.bounds.end() ? declaredBound(passName) : bound->second;
  for (size_t i = 0; i < 2; ++i) {
    const StepTrace &got = (*after)[i], &expected = before->second[i];
    if (got.outputs.empty())
      continue;
    if (got.outputs.size() != expected.outputs.size())
      return fail("has " + std::to_string(got.outputs.size()) + " outputs, before " +
                  std::to_string(expected.outputs.size()));
    for (size_t o = 0; o < got.outputs.size(); ++o) {
      double error = distance(got.outputs[o].second, expected.outputs[o].second);
      if (error <= allowed)
        continue;
      std::string node = firstDifference(got.nodes, expected.nodes);
      char numbers[96];
      std::snprintf(numbers, sizeof numbers, "max|d|/max|ref| = %.3g, allowed %.3g", error,
                    allowed);
      return fail(got.outputs[o].first + " changed, " + numbers +
                  (node.empty() ? "; no node of both differs"
                                : "; the first node that differs is " + node));
    }
  }
  state->functionsChecked.insert(name);
  if (allowed > 0)
    state->expected[name] = *std::move(after);
}

void NumericsInstrumentation::runAfterPass(Pass *pass, Operation *op) {
  // Adaptors run nested passes, which are looked at themselves.
  if (!state->failure.empty() || state->skipped || pass->getName().contains("OpToOpPassAdaptor"))
    return;
  SmallVector<func::FuncOp> functions = stepFunctions(op);
  if (functions.empty())
    return;
  for (func::FuncOp function : functions) {
    check(pass, function);
    if (!state->failure.empty())
      return;
  }
  ++state->passesChecked;
}

void verifyNumerics(PassManager &pm, const NumericsOptions &options) {
  // A function is run while others of its module stand still.
  pm.getContext()->disableMultithreading();
  auto state = std::make_shared<NumericsState>();
  state->options = options;
  pm.addInstrumentation(std::make_unique<NumericsInstrumentation>(state));
  pm.addPass(std::make_unique<NumericsResultPass>(state));
}

} // namespace gemma::passes
