#include "passes/verify/StepRunner.h"

#include "dialect/gemma/Gemma.h"
#include "dialect/gemma/NodeKey.h"
#include "reference/Evaluate.h"
#include "reference/Weights.h"

#include <algorithm>
#include <random>

using namespace mlir;
using gemma::reference::Batch;

namespace gemma::passes {

/// A schedule needs not be longer than this to leave a window behind.
static constexpr int64_t kLongestWindow = 24;

StepShape StepShape::of(ModuleOp module) {
  StepShape shape;
  module.walk(
      [&](program::WeightOp weight) { shape.weights += weight.getType().getNumElements(); });
  module.walk([&](program::CacheOp cache) {
    auto window = static_cast<int64_t>(cache.getWindow());
    if (window && (!shape.window || window < shape.window))
      shape.window = window;
  });
  SymbolTable symbols(module);
  module.walk([&](ir::EmbedOp embed) {
    if (auto table = symbols.lookup<program::WeightOp>(embed.getWeight()))
      shape.vocab = table.getType().getDimSize(0);
  });
  return shape;
}

StepSchedule randomSchedule(uint64_t seed, const StepShape &shape, bool single) {
  std::mt19937_64 random(seed);
  auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  auto id = [&] { return int32_t(below(std::max<int64_t>(1, shape.vocab))); };
  int64_t window = shape.window && shape.window <= kLongestWindow ? shape.window : 8;
  // Sequences need not be numbered in the order of their rows.
  const int64_t names[2] = {7, 3};
  std::vector<reference::Ids> prompts;
  for (int64_t length : {window + 1 + below(4), 2 + below(4)}) {
    prompts.emplace_back();
    for (int64_t i = 0; i < length; ++i)
      prompts.back().push_back(id());
  }

  StepSchedule schedule;
  if (single) {
    for (size_t s = 0; s < 2; ++s)
      for (size_t i = 0; i < prompts[s].size(); ++i)
        schedule.steps.push_back(
            {Batch::single(1, int64_t(i), names[s]), {prompts[s][i]}, reference::Ids{0}});
  } else {
    StepInput prefill;
    prefill.batch.rowStarts = {0};
    for (size_t s = 0; s < 2; ++s) {
      prefill.batch.add(names[s], int64_t(prompts[s].size()), 0);
      prefill.tokens.insert(prefill.tokens.end(), prompts[s].begin(), prompts[s].end());
    }
    // Some rows, in no order.
    auto last = int32_t(prefill.tokens.size()) - 1;
    prefill.logitRows = {last, int32_t(below(last)), int32_t(prompts[0].size()) - 1};
    schedule.steps.push_back(prefill);
  }
  // The rows of the decode step are in the other order.
  StepInput decode;
  decode.batch.rowStarts = {0};
  for (size_t s : {1, 0}) {
    decode.batch.add(names[s], 1, int64_t(prompts[s].size()));
    decode.tokens.push_back(id());
    decode.logitRows.push_back(int32_t(decode.logitRows.size()));
  }
  schedule.steps.push_back(decode);
  return schedule;
}

bool StepSchedule::satisfies(IntegerSet condition) const {
  return llvm::all_of(steps, [&](const StepInput &step) {
    const Batch &batch = step.batch;
    int64_t longestRun = 0, longest = 0;
    for (int64_t b = 0; b < batch.size(); ++b) {
      longestRun = std::max(longestRun, batch.rowSize(b));
      longest = std::max(longest, batch.seqLens[size_t(b)]);
    }
    const int64_t sizes[] = {batch.tokens(), batch.size(), longestRun, longest,
                             int64_t(step.logitRows.size())};
    for (unsigned i = 0; i < condition.getNumConstraints(); ++i) {
      SmallVector<Attribute> operands;
      Builder builder(condition.getContext());
      for (int64_t size : sizes)
        operands.push_back(builder.getIndexAttr(size));
      SmallVector<Attribute> result;
      auto map = AffineMap::get(0, condition.getNumSymbols(), condition.getConstraint(i));
      if (failed(
              map.constantFold(ArrayRef(operands).take_front(condition.getNumSymbols()), result)))
        return false;
      int64_t value = cast<IntegerAttr>(result.front()).getInt();
      if (condition.isEq(i) ? value != 0 : value < 0)
        return false;
    }
    return true;
  });
}

Expected<StepTrace> traceStep(ModuleOp module, StringRef function, const StepSchedule &schedule,
                              uint64_t seed) {
  StepTrace trace;
  reference::RandomWeights weights(seed);
  reference::Interpreter interpreter(module, weights);
  std::string step;
  interpreter.observe([&](Operation *op, unsigned result, const reference::Tensor &tensor) {
    StringRef key = ir::nodeKey(op->getLoc()), part = ir::nodePart(op->getLoc());
    std::string name = key.str() + (part.empty() ? "" : " (" + part.str() + ")");
    // What stands between nodes shares a key: slices and reshapes.
    if (!isa<ir::SpecOpInterface>(op))
      name += (name.empty() ? "" : " ") + op->getName().getStringRef().str();
    name += op->getNumResults() > 1 ? " result " + std::to_string(result) : "";
    trace.nodes.emplace_back(step + name, tensor);
  });
  std::set<int64_t> sequences;
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const StepInput &input = schedule.steps[i];
    step = "step " + std::to_string(i + 1) + ": ";
    auto result = interpreter.step(input.batch, input.tokens, input.logitRows, function);
    if (!result)
      return result.status();
    for (size_t o = 0; o < result->outputs.size(); ++o) {
      std::string name = step + (o == 0 ? "logits" : "output " + std::to_string(o));
      const reference::NodeValue &output = result->outputs[o];
      if (const auto *tensor = std::get_if<reference::Tensor>(&output)) {
        trace.outputs.emplace_back(name, *tensor);
      } else if (const auto *ids = std::get_if<reference::Ids>(&output)) {
        reference::Tensor numbers({int64_t(ids->size())});
        std::copy(ids->begin(), ids->end(), numbers.data.begin());
        trace.outputs.emplace_back(name, std::move(numbers));
      }
    }
    sequences.insert(input.batch.sequences.begin(), input.batch.sequences.end());
  }
  // Keys that are not stored are what the readers of the cache make of its values.
  llvm::StringMap<ir::KeysOfValuesAttr> computed;
  module.walk([&](ir::GqaOp gqa) {
    if (gqa.getKeys())
      computed[gqa.getCache().getType().getSymbol().getValue()] = *gqa.getKeys();
  });
  reference::LoadedWeights norms(module, weights);
  Status loaded;
  module.walk([&](program::CacheOp cache) {
    const reference::Tensor *norm = nullptr;
    ir::KeysOfValuesAttr keys = computed.lookup(cache.getSymName());
    if (keys) {
      Expected<const reference::Tensor *> weight = norms.get(keys.getNorm().getValue());
      if (!weight)
        loaded = weight.status();
      norm = weight ? *weight : nullptr;
    }
    for (int64_t sequence : sequences)
      if (const reference::KeyValues *kv = interpreter.cache(cache.getSymName(), sequence)) {
        std::string name =
            "cache @" + cache.getSymName().str() + ", sequence " + std::to_string(sequence) + ": ";
        trace.outputs.emplace_back(name + "keys",
                                   norm ? reference::keysOfValues(keys, *norm, kv->v) : kv->k);
        trace.outputs.emplace_back(name + "values", kv->v);
      }
  });
  if (!loaded)
    return loaded;
  return trace;
}

} // namespace gemma::passes
