#include "tools/verify/Verification.h"

#include "dialect/gemma/Gemma.h"
#include "import/Import.h"
#include "tools/verify/Bounds.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace mlir;
using gemma::reference::Batch;
using gemma::reference::KeyValues;
using gemma::reference::NodeValue;
using gemma::reference::Tensor;

namespace gemma::verify {

/// Sequences of the interpreter: the reference's own, and the one whose inputs are the program's.
static constexpr int64_t kOwn = 0, kFed = 1;

//===----------------------------------------------------------------------===//
// Prompts and distances
//===----------------------------------------------------------------------===//

reference::Ids PromptPlan::logitRows() const {
  reference::Ids rows;
  int64_t end = 0;
  for (int64_t count : steps) {
    end += count;
    for (int64_t row = allLogits ? end - count : end - 1; row < end; ++row)
      rows.push_back(int32_t(row));
  }
  return rows;
}

PromptPlan makePrompt(uint64_t seed, int64_t length, int64_t vocab, int64_t chunk, bool allLogits) {
  std::mt19937_64 random(seed * 1000003 + uint64_t(length));
  PromptPlan prompt;
  prompt.allLogits = allLogits;
  for (int64_t i = 0; i < length; ++i)
    prompt.tokens.push_back(int32_t(random() % uint64_t(vocab)));
  int64_t single = std::min<int64_t>(length / 2, 3);
  for (int64_t left = length - single; left > 0; left -= chunk)
    prompt.steps.push_back(std::min(left, chunk));
  prompt.steps.insert(prompt.steps.end(), size_t(single), 1);
  return prompt;
}

void Distance::add(const Tensor &got, const Tensor &expected) {
  if (got.shape != expected.shape) {
    broken = true;
    return;
  }
  for (size_t i = 0; i < got.data.size(); ++i) {
    broken |= !std::isfinite(got.data[i]) || !std::isfinite(expected.data[i]);
    largest = std::max(largest, std::fabs(expected.data[i]));
    worst = std::max(worst, std::fabs(got.data[i] - expected.data[i]));
  }
}

/// Rows [first, first + count) of the first axis.
static Tensor rowsOf(const Tensor &x, int64_t first, int64_t count) {
  std::vector<int64_t> shape = x.shape;
  int64_t size = x.count() / x.dim(0);
  shape[0] = count;
  auto begin = x.data.begin() + first * size;
  return Tensor(shape, std::vector<double>(begin, begin + count * size));
}

//===----------------------------------------------------------------------===//
// Set-up
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<Verification>> Verification::make(const ModelConfig &config,
                                                           const VerifyOptions &options) {
  std::unique_ptr<Verification> made(new Verification(config, options));
  made->module = importModel(made->context, config, {options.dtype});
  if (!made->module)
    return internalError("import failed");
  made->names = nameNodes(*made->module);
  if (Status ok = made->makeRows(); !ok)
    return ok;
  return made;
}

/// Products that a node's sums have.
static int64_t termsOf(const SpecNode &node, const ModelConfig &config) {
  if (node.opSpec == "lmHead")
    return config.hidden;
  if (node.opSpec == "linear")
    for (const auto &[name, value] : node.constants)
      if (name == "K")
        return std::stoll(value);
  return 0; // rows of norms: their sums' errors are halved by the root, and relative to the sum
}

Status Verification::makeRows() {
  SpecSheet sheet = deriveSpec(*module, "", config.maxPositions);
  specNodes = std::move(sheet.nodes);
  if (!options.nodes.empty()) {
    Expected<NodePattern> parsed = parseNodePattern(options.nodes);
    if (!parsed)
      return parsed.status();
    pattern = *std::move(parsed);
  }
  for (const SpecNode &node : specNodes) {
    VerifyRow row;
    row.key = (node.layers.empty() ? "" : "layers[*].") + node.node;
    row.what = node.opSpec;
    std::vector<int64_t> layers = node.layers;
    if (pattern)
      std::erase_if(layers, [&](int64_t layer) {
        return !pattern->matches("layers[" + std::to_string(layer) + "]." + node.node);
      });
    if (!layers.empty())
      row.what += ", " + describeLayers(layers, sheet.layers);
    int64_t terms = termsOf(node, config);
    longestSum = std::max(longestSum, terms);
    row.bound = nodeBound(options.dtype, terms);
    nodeRows.push_back(row);
  }
  if (!pattern)
    return {};
  for (const auto &[op, id] : names)
    if (isa<ir::SpecOpInterface>(op) && pattern->matches(id.key))
      return {};
  std::vector<std::string> known;
  for (const VerifyRow &row : nodeRows)
    if (!std::ranges::count(known, row.key))
      known.push_back(row.key);
  std::string message = "spec key " + options.nodes + ": the model of " +
                        std::to_string(sheet.layers) + " layers has no such node";
  std::string list;
  for (const std::string &name : nearest(options.nodes, known))
    list += (list.empty() ? "; near ones are " : ", ") + name;
  return badInput(message + list);
}

Status Verification::draw(uint64_t newSeed) {
  interpreter.reset();
  weightSource.reset();
  weights.reset();
  seed = newSeed;
  Expected<Checkpoint> made = makeRandomCheckpoint(config, seed);
  if (!made)
    return made.status();
  weights.emplace(*std::move(made));
  return {};
}

Status Verification::readWeights(const Program &program) {
  if (interpreter)
    return {};
  Expected<compiler::CompileOptions> types = typeOptions(program);
  if (!types)
    return types.status();
  codes = types->codeType.value_or(ScalarType::I8);
  weightSource = std::make_unique<StoredWeights>(*weights, program);
  interpreter.emplace(*module, *weightSource);
  return {};
}

std::optional<ScalarType> Verification::codesOf(const Program &program, Operation *op) const {
  StringRef weight;
  if (auto linear = dyn_cast<ir::LinearOp>(op))
    weight = linear.getWeight();
  else if (auto head = dyn_cast<ir::LmHeadOp>(op))
    weight = head.getWeight();
  if (weight.empty() || !StoredWeights::isQuantised(program, weight))
    return std::nullopt;
  return codes;
}

VerifyRow *Verification::rowOf(const std::string &key) {
  if (pattern && !pattern->matches(key))
    return nullptr;
  auto [layer, node] = splitNodeKey(key);
  for (size_t i = 0; i < specNodes.size(); ++i)
    if (specNodes[i].node == node &&
        (layer < 0 ? specNodes[i].layers.empty()
                   : std::ranges::binary_search(specNodes[i].layers, layer)))
      return &nodeRows[i];
  return nullptr;
}

void Verification::record(VerifyRow &row, double error, const std::string &where) {
  ++row.tensors;
  if (!(error <= row.worst)) {
    row.worst = error;
    row.where = where + ", seed " + std::to_string(seed);
  }
}

std::vector<VerifyRow> Verification::rows() const {
  std::vector<VerifyRow> all;
  for (size_t i = 0; i < nodeRows.size(); ++i) {
    const SpecNode &node = specNodes[i];
    bool wanted = !pattern;
    auto matches = [&](int64_t layer) {
      std::string prefix = layer < 0 ? "" : "layers[" + std::to_string(layer) + "].";
      return pattern->matches(prefix + node.node);
    };
    if (pattern)
      wanted = node.layers.empty() ? matches(-1) : std::ranges::any_of(node.layers, matches);
    // A fused program has no nodes to compare.
    bool compared = std::ranges::any_of(nodeRows, [](const VerifyRow &row) { return row.tensors; });
    if (wanted && compared)
      all.push_back(nodeRows[i]);
  }
  for (const auto &[name, row] : wholeRows)
    all.push_back(row);
  return all;
}

//===----------------------------------------------------------------------===//
// Comparing
//===----------------------------------------------------------------------===//

Expected<Tensor> Verification::expectedLogits(const Program &program, const PromptPlan &prompt) {
  interpreter->drop(kOwn);
  interpreter->observe(nullptr);
  interpreter->overrideInputs(
      [&](Operation *op, unsigned, const NodeValue &own) -> std::optional<NodeValue> {
        std::optional<ScalarType> rounded = codesOf(program, op);
        if (!rounded)
          return std::nullopt;
        Tensor copy = std::get<Tensor>(own);
        roundToCodes(copy, *rounded);
        return copy;
      });
  auto result = interpreter->step(Batch::single(int64_t(prompt.tokens.size()), 0, kOwn),
                                  prompt.tokens, prompt.logitRows());
  interpreter->overrideInputs(nullptr);
  if (!result)
    return result.status();
  return result->logits();
}

Status Verification::compareNodes(const Batch &batch, const PromptPlan &prompt, int64_t first,
                                  int64_t count, const NodeOutputs &outputs,
                                  const Program &program) {
  auto computed = [&](Operation *op) -> const Tensor * {
    auto name = names.find(op);
    if (name == names.end())
      return nullptr;
    auto found = outputs.find(name->second);
    return found == outputs.end() ? nullptr : &found->second;
  };
  interpreter->overrideInputs(
      [&](Operation *op, unsigned operand, const NodeValue &own) -> std::optional<NodeValue> {
        Operation *producer = op->getOperand(operand).getDefiningOp();
        const Tensor *value = producer ? computed(producer) : nullptr;
        std::optional<ScalarType> rounded = codesOf(program, op);
        if (!value && !rounded)
          return std::nullopt;
        Tensor copy = value ? *value : std::get<Tensor>(own);
        if (isa<ir::CacheAppendOp>(op))
          roundToCache(copy, program.cacheType);
        if (rounded)
          roundToCodes(copy, *rounded);
        return copy;
      });
  std::string at = ", tokens " + std::to_string(first) + " to " +
                   std::to_string(first + count - 1) + " of " +
                   std::to_string(prompt.tokens.size());
  interpreter->observe([&](Operation *op, unsigned, const Tensor &expected) {
    if (!isa<ir::SpecOpInterface>(op))
      return;
    const NodeId &id = names.at(op);
    VerifyRow *row = rowOf(id.key);
    if (!row)
      return;
    if (const Tensor *got = computed(op)) {
      Distance distance;
      distance.add(*got, expected);
      record(*row, distance.value(), id.key + at);
    } else {
      record(*row, INFINITY, id.key + ": no launch computed it");
    }
  });
  reference::Ids tokens(prompt.tokens.begin() + first, prompt.tokens.begin() + first + count);
  reference::Ids logitRows;
  for (int64_t i = prompt.allLogits ? 0 : count - 1; i < count; ++i)
    logitRows.push_back(int32_t(i));
  auto result = interpreter->step(batch, tokens, logitRows);
  interpreter->overrideInputs(nullptr);
  interpreter->observe(nullptr);
  return result.status();
}

Status Verification::run(const Artifact &artifact, const PromptPlan &prompt) {
  Expected<std::shared_ptr<const Model>> model = Model::load(artifact, *weights, {});
  if (!model)
    return model.status();
  Expected<std::unique_ptr<CompiledRun>> started = CompiledRun::start(*model, *module);
  if (!started)
    return started.status();
  CompiledRun &run = **started;
  const Program &program = (*model)->program();
  if (Status read = readWeights(program); !read)
    return read;
  interpreter->drop(kFed);

  std::vector<Tensor> logits;
  int64_t first = 0;
  for (int64_t count : prompt.steps) {
    NodeOutputs outputs;
    auto tokens = std::span(prompt.tokens).subspan(size_t(first), size_t(count));
    Expected<Tensor> part = run.step(tokens, prompt.allLogits, program.fused ? nullptr : &outputs);
    if (!part)
      return part.status();
    logits.push_back(*std::move(part));
    if (!program.fused)
      if (Status compared = compareNodes(Batch::single(count, first, kFed), prompt, first, count,
                                         outputs, program);
          !compared)
        return compared;
    first += count;
  }
  if (pattern)
    return {};

  Expected<Tensor> expected = expectedLogits(program, prompt);
  if (!expected)
    return expected.status();
  std::string where = std::to_string(prompt.tokens.size()) + " tokens";
  auto whole = [&](const std::string &what) -> VerifyRow & {
    VerifyRow &row = wholeRows[what + (program.fused ? " fused" : " unfused")];
    row.key = "whole model";
    row.what = what + (program.fused ? ", fused" : ", unfused");
    row.bound = wholeBound(program.cacheType, config.layers(), longestSum);
    if (std::ranges::any_of(program.weights, isQuantized, &WeightRecipe::storage))
      row.bound += codesBound(codes == ScalarType::I16 ? 32767 : 127, config.layers());
    return row;
  };
  Distance distance;
  int64_t at = 0;
  for (const Tensor &part : logits) {
    distance.add(part, rowsOf(*expected, at, part.dim(0)));
    at += part.dim(0);
  }
  record(whole("logits"), distance.value(), where);
  for (size_t cache = 0; cache < program.caches.size(); ++cache) {
    const CachePlan &plan = program.caches[cache];
    const KeyValues *kept = interpreter->cache(plan.name, kOwn);
    if (!kept)
      return internalError("the reference has no cache " + plan.name);
    // A ring keeps what the next token may see.
    int64_t from = plan.ring ? std::max<int64_t>(0, run.length() - plan.window) : 0;
    KeyValues got = run.cached(cache, from);
    int64_t count = run.length() - from;
    for (auto [lane, mine, theirs] :
         {std::tuple("keys", &got.k, &kept->k), std::tuple("values", &got.v, &kept->v)}) {
      if (lane == std::string_view("keys") && !plan.keys)
        continue; // what attention makes of the values shows in the logits
      Distance d;
      d.add(*mine, rowsOf(*theirs, from, count));
      record(whole("caches"), d.value(), plan.name + " " + lane + ", " + where);
    }
  }
  return {};
}

} // namespace gemma::verify
