#include "tools/verify/NodeCase.h"

#include "dialect/gemma/Gemma.h"
#include "dialect/gemma/NodeKey.h"
#include "import/Import.h"
#include "reference/Interpreter.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/support/BFloat16.h"
#include "tools/verify/SpecKey.h"
#include "tools/verify/SpecSheet.h"

#include "mlir/IR/MLIRContext.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <unistd.h>

using namespace mlir;
using gemma::reference::Batch;
using gemma::reference::NodeValue;
using gemma::reference::Tensor;

namespace gemma::verify {

namespace {
/// Makes the inputs of one node, runs it, and collects the file.
class CaseBuilder {
public:
  CaseBuilder(ModuleOp module, const ModelConfig &config, const CaseOptions &options)
      : module(module), options(options), random(options.seed),
        weights(options.seed, requiredTensors(config)), interpreter(module, weights) {}

  Status add(Operation *op);
  Status write(const std::filesystem::path &file, std::map<std::string, std::string> metadata);

private:
  /// Mean 0, variance 1, bf16 numbers.
  Tensor input(const std::string &name, std::vector<int64_t> shape);
  Status addWeight(Operation *op, StringRef attribute, const std::string &name);
  Status addOutput(const std::string &name, Operation *op, std::span<const NodeValue> inputs);
  Status addAttention(ir::GqaOp op);
  void store(std::string name, ScalarType type, std::vector<int64_t> shape,
             std::vector<std::byte> bytes);
  template <typename T>
  void store(std::string name, ScalarType type, std::vector<int64_t> shape,
             const std::vector<T> &values) {
    auto bytes = std::as_bytes(std::span(values));
    store(std::move(name), type, std::move(shape), std::vector(bytes.begin(), bytes.end()));
  }
  void storeIds(const std::string &name, const std::vector<int64_t> &ids) {
    store(name, ScalarType::I64, {int64_t(ids.size())}, ids);
  }
  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }

  struct Stored {
    std::string name;
    ScalarType type;
    std::vector<int64_t> shape;
    std::vector<std::byte> bytes;
  };
  ModuleOp module;
  const CaseOptions &options;
  std::mt19937_64 random;
  reference::RandomWeights weights;
  reference::Interpreter interpreter;
  std::vector<Stored> tensors;
  std::optional<Batch> positions; ///< of a rope, the same for q and k
  std::string outputs;            ///< names, separated by spaces
};
} // namespace

void CaseBuilder::store(std::string name, ScalarType type, std::vector<int64_t> shape,
                        std::vector<std::byte> bytes) {
  tensors.push_back({std::move(name), type, std::move(shape), std::move(bytes)});
}

Tensor CaseBuilder::input(const std::string &name, std::vector<int64_t> shape) {
  Tensor tensor = reference::randomTensor(options.seed, "case." + name, std::move(shape));
  double scale = std::sqrt(double(tensor.width())); // its variance is 1 / width
  std::vector<float> values;
  values.reserve(tensor.data.size());
  for (double &value : tensor.data) {
    value = bf16ToF32(f32ToBf16(float(value * scale)));
    values.push_back(float(value));
  }
  store(name, ScalarType::F32, tensor.shape, values);
  return tensor;
}

Status CaseBuilder::addWeight(Operation *op, StringRef attribute, const std::string &name) {
  auto symbol = op->getAttrOfType<FlatSymbolRefAttr>(attribute);
  auto weight = symbol ? module.lookupSymbol<program::WeightOp>(symbol) : program::WeightOp();
  if (!weight)
    return {};
  Expected<Tensor> tensor = weights.weight(weight);
  if (!tensor)
    return tensor.status();
  std::vector<uint16_t> bits;
  bits.reserve(tensor->data.size());
  for (double value : tensor->data)
    bits.push_back(f32ToBf16(float(value)));
  store(name, ScalarType::BF16, tensor->shape, bits);
  return {};
}

Status CaseBuilder::addOutput(const std::string &name, Operation *op,
                              std::span<const NodeValue> inputs) {
  auto results = interpreter.runNode(op, inputs);
  if (!results)
    return results.status();
  const auto &tensor = std::get<Tensor>(results->front());
  store(name, ScalarType::F64, tensor.shape, tensor.data);
  outputs += (outputs.empty() ? "" : " ") + name;
  return {};
}

/// One query of each of B sequences at its last position.
Status CaseBuilder::addAttention(ir::GqaOp op) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getQ().getType()).getShape();
  int64_t batch = options.tokens, seq = options.seq, kvHeads = int64_t(op.getKvHeads());
  Tensor q = input("q", {batch, shape[1], shape[2]});
  Tensor k = input("k", {batch, seq, kvHeads, shape[2]});
  Tensor v = input("v", {batch, seq, kvHeads, shape[2]});
  // The sums of D products have the variance that the q and k norms give them.
  double scale = std::sqrt(1.4 / std::sqrt(double(shape[2])));
  for (size_t i = 0; i < 2; ++i) {
    auto *values = reinterpret_cast<float *>(tensors[tensors.size() - 3 + i].bytes.data());
    Tensor &tensor = i == 0 ? q : k;
    for (size_t j = 0; j < tensor.data.size(); ++j)
      tensor.data[j] = values[j] = bf16ToF32(f32ToBf16(float(tensor.data[j] * scale)));
  }
  Batch rows;
  rows.rowStarts = {0};
  reference::CacheValue cache;
  int64_t size = kvHeads * shape[2];
  auto firstOf = [&](const Tensor &x, int64_t b, int64_t count) {
    auto begin = x.data.begin() + b * seq * size;
    return Tensor({count, kvHeads, shape[2]}, std::vector<double>(begin, begin + count * size));
  };
  for (int64_t b = 0; b < batch; ++b) {
    int64_t length = b == 0 ? seq : 1 + below(seq);
    rows.add(b, 1, length - 1);
    cache.set(b, {firstOf(k, b, length), firstOf(v, b, length)});
  }
  storeIds("seq_lens", rows.seqLens);
  return addOutput("o", op, std::vector<NodeValue>{q, cache, rows});
}

Status CaseBuilder::add(Operation *op) {
  if (auto attention = dyn_cast<ir::GqaOp>(op))
    return addAttention(attention);
  std::string part = ir::nodePart(op->getLoc()).str();
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  std::vector<int64_t> shape = type.getShape().vec();
  shape[0] = options.tokens;
  bool perHead = shape.size() == 3;
  std::string name = perHead ? (part.empty() ? "v" : part) : "x";
  if (Status added = addWeight(op, "weight", perHead ? "w_" + name : "w"); !added)
    return added;
  if (Status added = addWeight(op, "layer_scalar", "s"); !added)
    return added;

  std::vector<NodeValue> inputs;
  if (auto embed = dyn_cast<ir::EmbedOp>(op)) {
    auto table = module.lookupSymbol<program::WeightOp>(embed.getWeight());
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < options.tokens; ++i)
      ids.push_back(below(table.getType().getDimSize(0)));
    storeIds("tokens", ids);
    inputs.emplace_back(reference::Ids(ids.begin(), ids.end()));
    return addOutput("y", op, inputs);
  }
  if (isa<ir::GeluMulOp, ir::SiluMulOp>(op))
    name = "gate_up";
  inputs.emplace_back(input(name, shape));
  if (isa<ir::ResidualOp>(op))
    inputs.emplace_back(input("h", shape));
  if (isa<ir::RopeOp, ir::RopeStdOp>(op)) {
    if (!positions) {
      positions.emplace();
      positions->rowStarts = {0};
      for (int64_t i = 0; i < options.tokens; ++i)
        positions->add(i, 1, i == 0 ? options.seq - 1 : below(options.seq));
      storeIds("pos", positions->positions());
    }
    inputs.emplace_back(*positions);
  }
  return addOutput(perHead ? name + "_out" : isa<ir::LmHeadOp>(op) ? "logits" : "y", op, inputs);
}

Status CaseBuilder::write(const std::filesystem::path &file,
                          std::map<std::string, std::string> metadata) {
  metadata["outputs"] = outputs;
  SafetensorsWriter writer;
  for (const Stored &tensor : tensors)
    writer.add(tensor.name, tensor.type, tensor.shape, tensor.bytes);
  for (const auto &[key, value] : metadata)
    writer.setMetadata(key, value);
  return writer.write(file);
}

//===----------------------------------------------------------------------===//
// The node
//===----------------------------------------------------------------------===//

/// The ops of the one node that `nodes` means: the first layer with a window comes first.
static Expected<std::vector<Operation *>> findNode(ModuleOp module, const std::string &nodes) {
  Expected<NodePattern> pattern = parseNodePattern(nodes);
  if (!pattern)
    return pattern.status();
  std::vector<std::string> known, matched;
  std::vector<int64_t> sliding;
  std::map<std::string, std::vector<Operation *>> byKey;
  module.walk([&](ir::SpecOpInterface op) {
    std::string key = ir::nodeKey(op->getLoc()).str();
    auto [layer, node] = splitNodeKey(key);
    if (auto attention = dyn_cast<ir::GqaOp>(*op); attention && attention.getWindow())
      sliding.push_back(layer);
    std::string general = (layer < 0 ? "" : "layers[*].") + std::string(node);
    if (!std::ranges::count(known, general))
      known.push_back(general);
    if (pattern->matches(key)) {
      byKey[key].push_back(op);
      if (!std::ranges::count(matched, key))
        matched.push_back(key);
    }
  });
  if (matched.empty()) {
    std::string message = "spec key " + nodes + ": the model has no such node", list;
    for (const std::string &name : nearest(nodes, known))
      list += (list.empty() ? "; near ones are " : ", ") + name;
    return badInput(message + list);
  }
  std::string_view node = splitNodeKey(matched.front()).second;
  for (const std::string &key : matched)
    if (splitNodeKey(key).second != node)
      return badInput("spec key " + nodes + ": expected one node, got " + matched.front() + ", " +
                      key + " and more");
  for (const std::string &key : matched)
    if (std::ranges::count(sliding, splitNodeKey(key).first))
      return byKey[key];
  return byKey[matched.front()];
}

static Status checkSizes(const CaseOptions &options, const ModelConfig &config, bool attention) {
  auto check = [](const char *what, int64_t value, int64_t most) -> Status {
    if (value >= 1 && value <= most)
      return {};
    return badInput(std::string(what) + ": expected 1 to " + std::to_string(most) + ", got " +
                    std::to_string(value));
  };
  int64_t positions = std::min<int64_t>(config.maxPositions, 262144);
  if (Status ok = check("--tokens", options.tokens, attention ? 256 : positions); !ok)
    return ok;
  return check("--seq", options.seq, positions);
}

/// Products of a contraction's sums; 0 for other nodes.
static int64_t termsOf(Operation *op) {
  if (!isa<ir::LinearOp, ir::LmHeadOp>(op))
    return 0;
  return cast<RankedTensorType>(op->getOperand(0).getType()).getShape().back();
}

/// Refuses a case that would not fit into memory: weights in double, and inputs and outputs twice.
static Status checkMemory(ModuleOp module, const std::vector<Operation *> &ops,
                          const CaseOptions &options) {
  double bytes = 0;
  for (Operation *op : ops) {
    for (const char *attribute : {"weight", "layer_scalar"})
      if (auto symbol = op->getAttrOfType<FlatSymbolRefAttr>(attribute))
        if (auto weight = module.lookupSymbol<program::WeightOp>(symbol))
          bytes += 18 * double(weight.getType().getNumElements());
    auto rows = [&](Value value) {
      double count = double(options.tokens);
      if (auto type = dyn_cast<RankedTensorType>(value.getType()))
        for (int64_t size : type.getShape().drop_front())
          count *= double(size);
      return count;
    };
    for (Value operand : op->getOperands())
      bytes += 12 * rows(operand);
    bytes += 16 * rows(op->getResult(0));
    if (auto attention = dyn_cast<ir::GqaOp>(op))
      bytes += 2 * 20 * double(options.tokens) * double(options.seq) *
               double(attention.getKvHeads()) *
               double(cast<RankedTensorType>(attention.getQ().getType()).getShape().back());
  }
  double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
  if (bytes <= memory)
    return {};
  return badInput("the case needs " + std::to_string(int64_t(bytes / 0x1p20)) +
                  " MiB of memory, this machine has " + std::to_string(int64_t(memory / 0x1p20)));
}

Expected<std::string> writeNodeCase(const ModelSource &source, const std::string &nodes,
                                    const CaseOptions &options, const std::filesystem::path &file) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = importModel(context, source.config, {ScalarType::F64});
  if (!module)
    return internalError("import failed");
  Expected<std::vector<Operation *>> ops = findNode(*module, nodes);
  if (!ops)
    return ops.status();
  if (Status ok = checkSizes(options, source.config, isa<ir::GqaOp>(ops->front())); !ok)
    return ok;
  if (Status ok = checkMemory(*module, *ops, options); !ok)
    return ok;
  CaseBuilder builder(*module, source.config, options);
  for (Operation *op : *ops)
    if (Status added = builder.add(op); !added)
      return added;
  std::string key = source.name + ":" + ir::nodeKey(ops->front()->getLoc()).str();
  Status written =
      builder.write(file, {{"spec_key", key},
                           {"op_spec", cast<ir::SpecOpInterface>(ops->front()).getOpSpec().str()},
                           {"terms", std::to_string(termsOf(ops->front()))},
                           {"tokens", std::to_string(options.tokens)},
                           {"seq", std::to_string(options.seq)},
                           {"seed", std::to_string(options.seed)}});
  return written ? Expected<std::string>(key) : written;
}

} // namespace gemma::verify
