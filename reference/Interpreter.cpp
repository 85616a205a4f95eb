#include "reference/Interpreter.h"

#include "dialect/gemma/Gemma.h"

#include "mlir/Transforms/RegionUtils.h"

#include <set>

using namespace mlir;

namespace gemma::reference {

/// The values of one function call.
class Interpreter::Frame {
public:
  explicit Frame(Interpreter &interpreter) : interpreter(interpreter) {}

  void define(Value value, NodeValue content) { values[value] = std::move(content); }
  const NodeValue &at(Value value) { return values.at(value); }

  /// Runs the ops of `block` up to its terminator.
  Status run(Block &block) {
    for (Operation &op : block.without_terminator())
      if (Status done = run(op); !done)
        return done;
    return {};
  }

  Status run(Operation &op) {
    if (auto group = dyn_cast<ir::GroupOp>(op))
      return runGroup(group);
    std::vector<NodeValue> replaced;
    replaced.reserve(op.getNumOperands());
    std::vector<const NodeValue *> operands;
    for (OpOperand &operand : op.getOpOperands()) {
      std::optional<NodeValue> other;
      if (interpreter.inputOverride)
        other =
            interpreter.inputOverride(&op, operand.getOperandNumber(), values.at(operand.get()));
      if (other)
        replaced.push_back(*std::move(other));
      operands.push_back(other ? &replaced.back() : &values.at(operand.get()));
    }
    Expected<std::vector<NodeValue>> results = evaluate(&op, operands, interpreter.weights);
    if (!results)
      return results.error();
    for (OpResult result : op.getResults()) {
      NodeValue &value = (*results)[result.getResultNumber()];
      if (const Tensor *tensor = std::get_if<Tensor>(&value); tensor && interpreter.observer)
        interpreter.observer(&op, result.getResultNumber(), *tensor);
      define(result, std::move(value));
    }
    return {};
  }

private:
  Status runGroup(ir::GroupOp group) {
    Block &body = group.getBody().front();
    if (Status done = run(body); !done)
      return done;
    for (auto [result, value] : llvm::zip(group.getResults(), body.getTerminator()->getOperands()))
      define(result, at(value));
    return {};
  }

  struct Hash {
    size_t operator()(Value value) const { return size_t(hash_value(value)); }
  };
  Interpreter &interpreter;
  std::unordered_map<Value, NodeValue, Hash> values;
};

/// What is wrong with a batch of `tokens` tokens.
static Status checkBatch(const Batch &batch, size_t tokens) {
  size_t rows = batch.sequences.size();
  if (rows == 0 || batch.rowStarts.size() != rows + 1 || batch.seqLens.size() != rows)
    return badInput(
        "batch: expected 1 or more sequences, as many lengths, one row start more; got " +
        std::to_string(rows) + ", " + std::to_string(batch.seqLens.size()) + ", " +
        std::to_string(batch.rowStarts.size()));
  if (batch.rowStarts.front() != 0 || batch.rowStarts.back() != int64_t(tokens))
    return badInput("batch: expected row starts from 0 to " + std::to_string(tokens) + ", got " +
                    std::to_string(batch.rowStarts.front()) + " to " +
                    std::to_string(batch.rowStarts.back()));
  for (int64_t b = 0; b < batch.size(); ++b)
    if (batch.rowSize(b) < 1 || batch.firstPosition(b) < 0)
      return badInput("batch: row " + std::to_string(b) + " has " +
                      std::to_string(batch.rowSize(b)) + " tokens of a sequence of " +
                      std::to_string(batch.seqLens[size_t(b)]));
  if (std::set(batch.sequences.begin(), batch.sequences.end()).size() != rows)
    return badInput("batch: a sequence has two rows");
  return {};
}

Expected<StepResult> Interpreter::step(const Batch &batch, const Ids &tokens, const Ids &logitRows,
                                       StringRef name) {
  if (Status ok = checkBatch(batch, tokens.size()); !ok)
    return ok;
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function || function.isExternal())
    return badInput("the module has no function @" + name.str());
  Block &body = function.getBody().front();

  Frame frame(*this);
  bool tokensSeen = false;
  for (BlockArgument argument : body.getArguments()) {
    if (auto cache = dyn_cast<ir::CacheType>(argument.getType()))
      frame.define(argument, caches[cache.getSymbol().getValue().str()]);
    else if (isa<ir::BatchType>(argument.getType()))
      frame.define(argument, batch);
    else
      frame.define(argument, std::exchange(tokensSeen, true) ? logitRows : tokens);
  }
  if (Status done = frame.run(body); !done)
    return done;

  StepResult result;
  for (Value value : body.getTerminator()->getOperands()) {
    const NodeValue &content = frame.at(value);
    if (auto cache = dyn_cast<ir::CacheType>(value.getType()))
      caches[cache.getSymbol().getValue().str()] = std::get<CacheValue>(content);
    else
      result.outputs.push_back(content);
  }
  return result;
}

Expected<std::vector<NodeValue>> Interpreter::runNode(Operation *op,
                                                      std::span<const NodeValue> inputs) {
  // A group reads values from outside, any other op its operands.
  llvm::SetVector<Value> captured;
  if (op->getNumRegions())
    getUsedValuesDefinedAbove(op->getRegions(), captured);
  size_t expected = op->getNumRegions() ? captured.size() : op->getNumOperands();
  if (expected != inputs.size())
    return badInput(op->getName().getStringRef().str() + ": expected " + std::to_string(expected) +
                    " inputs, got " + std::to_string(inputs.size()));
  if (!op->getNumRegions()) {
    std::vector<const NodeValue *> operands;
    for (const NodeValue &input : inputs)
      operands.push_back(&input);
    return evaluate(op, operands, weights);
  }
  Frame frame(*this);
  for (auto [value, input] : llvm::zip(captured, inputs))
    frame.define(value, input);
  if (Status done = frame.run(*op); !done)
    return done;
  std::vector<NodeValue> results;
  for (Value result : op->getResults())
    results.push_back(frame.at(result));
  return results;
}

const KeyValues *Interpreter::cache(StringRef symbol, int64_t sequence) const {
  auto found = caches.find(symbol.str());
  return found == caches.end() ? nullptr : found->second.find(sequence);
}

void Interpreter::drop(int64_t sequence) {
  for (auto &[symbol, cache] : caches)
    cache.drop(sequence);
}

} // namespace gemma::reference
