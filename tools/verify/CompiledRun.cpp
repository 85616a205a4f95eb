#include "tools/verify/CompiledRun.h"

#include "dialect/gemma/Gemma.h"
#include "dialect/gemma/NodeKey.h"
#include "runtime/checkpoint/Widen.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using gemma::reference::KeyValues;
using gemma::reference::Tensor;

namespace gemma::verify {

std::map<Operation *, NodeId> nameNodes(ModuleOp module) {
  std::map<Operation *, NodeId> names;
  std::map<std::string, int> occurrences;
  module.walk([&](Operation *op) {
    if (!isa<ir::SpecOpInterface, ir::SelectRowsOp>(op))
      return;
    std::string key = ir::nodeKey(op->getLoc()).str();
    int occurrence = occurrences[key]++;
    names[op] = {key, occurrence};
  });
  return names;
}

bool hasLogitRows(const std::string &key) {
  return key == "select_rows" || key == "final_norm" || key == "lm_head";
}

Expected<std::unique_ptr<CompiledRun>> CompiledRun::start(std::shared_ptr<const Model> model,
                                                          ModuleOp module) {
  std::unique_ptr<CompiledRun> run(new CompiledRun);
  run->model = model;
  // What a program must not read is NaN.
  Expected<std::unique_ptr<Context>> context = Context::create(model, {.poison = true});
  if (!context)
    return context.status();
  run->context = *std::move(context);
  Expected<std::unique_ptr<Sequence>> sequence = run->context->newSequence();
  if (!sequence)
    return sequence.status();
  run->sequence = *std::move(sequence);
  for (const auto &[op, id] : nameNodes(module)) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(op->getResult(0).getType()).getShape();
    run->rowShapes[id] = shape.drop_front().vec();
  }
  return run;
}

/// [rows, shape...] of elements of `type` at `data`.
static Tensor read(const std::byte *data, ScalarType type, int64_t rows,
                   const std::vector<int64_t> &shape) {
  std::vector<int64_t> whole = {rows};
  whole.insert(whole.end(), shape.begin(), shape.end());
  Tensor tensor(std::move(whole));
  widen(type, {data, tensor.data.size() * byteWidth(type)}, 0, tensor.data);
  return tensor;
}

void CompiledRun::afterLaunch(size_t variant, size_t launchIndex, int64_t tokens, int64_t rows,
                              NodeOutputs &nodes) {
  const Program &program = model->program();
  const Launch &launch = program.variants[variant].launches[launchIndex];
  const KernelPlan &kernel = program.kernels[size_t(launch.kernel)];
  if (launch.nodes.empty())
    return;
  const std::string &key = launch.nodes.back();
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    const LaunchArgument &argument = launch.arguments[i];
    bool output = argument.kind == LaunchArgument::Kind::Output;
    if (kernel.access[i] == 0 || (!output && argument.kind != LaunchArgument::Kind::Buffer))
      continue;
    ScalarType type = argument.type;
    if (output)
      for (const OutputPlan &plan : program.outputs)
        if (plan.name == argument.name)
          type = plan.type;
    NodeId id{key, occurrences[key]++};
    auto shape = rowShapes.find(id);
    if (shape == rowShapes.end())
      continue;
    nodes[id] = read(context->argumentData(variant, launchIndex, i), type,
                     hasLogitRows(key) ? rows : tokens, shape->second);
  }
}

Expected<Tensor> CompiledRun::step(std::span<const int32_t> tokens, bool allLogits,
                                   NodeOutputs *nodes) {
  auto count = int64_t(tokens.size()), rows = allLogits ? count : 1;
  occurrences.clear();
  if (nodes) {
    nodes->clear();
    context->observeLaunches([&, nodes](size_t variant, size_t launch) {
      afterLaunch(variant, launch, count, rows, *nodes);
    });
  }
  StepRow row{sequence.get(), tokens, allLogits ? LogitsWanted::All : LogitsWanted::Last};
  Expected<StepResult> result = context->step({&row, 1});
  context->observeLaunches(nullptr);
  if (!result)
    return result.status();
  if (Status status = context->fetchCaches(); !status)
    return status;
  std::optional<OutputView> logits = context->output("logits");
  if (!logits)
    return internalError("the program has no output logits");
  return read(logits->data, logits->type, rows, {logits->rowElements});
}

KeyValues CompiledRun::cached(size_t cache, int64_t first) const {
  const CachePlan &plan = model->program().caches[cache];
  size_t width = byteWidth(plan.elem);
  KeyValues result;
  for (const char *lane : {"k", "v"}) {
    bool keys = lane[0] == 'k';
    if (keys && !plan.keys)
      continue;
    std::span<const std::byte> bytes = context->cacheLane(cache, lane);
    std::span<const std::byte> scales = context->cacheLane(cache, std::string(lane) + "_scales");
    Tensor tensor({length() - first, plan.heads, plan.dim});
    double *out = tensor.data.data();
    for (int64_t p = first; p < length(); ++p) {
      int64_t page = context->pageOf(*sequence, p, plan.ring), slot = p % plan.page;
      for (int64_t h = 0; h < plan.heads; ++h)
        for (int64_t d = 0; d < plan.dim; ++d) {
          int64_t head = page * plan.heads + h;
          int64_t at = keys ? (head * plan.dim + d) * plan.page + slot
                            : (head * plan.page + slot) * plan.dim + d;
          widen(plan.elem, bytes.subspan(size_t(at) * width, width), 0, std::span(out, 1));
          if (double scale = 1; !scales.empty()) {
            widen(ScalarType::F32, scales, size_t(head * plan.page + slot), std::span(&scale, 1));
            *out *= scale;
          }
          ++out;
        }
    }
    (keys ? result.k : result.v) = std::move(tensor);
  }
  return result;
}

} // namespace gemma::verify
