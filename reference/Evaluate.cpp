#include "reference/Evaluate.h"

#include "dialect/gemma/Gemma.h"
#include "dialect/gemma/NodeKey.h"
#include "reference/Ops.h"
#include "reference/TensorOps.h"

#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

using namespace mlir;

namespace gemma::reference {

using Results = Expected<std::vector<NodeValue>>;

static Results one(NodeValue value) {
  std::vector<NodeValue> values;
  values.push_back(std::move(value));
  return values;
}

Expected<const Tensor *> LoadedWeights::get(StringRef symbol) {
  auto found = loaded.find(symbol.str());
  if (found != loaded.end())
    return &found->second;
  auto op = symbols.lookup<program::WeightOp>(symbol);
  if (!op)
    return badInput("no program.weight @" + symbol.str());
  Expected<Tensor> tensor = source.weight(op);
  if (!tensor)
    return tensor.error();
  return &loaded.emplace(symbol.str(), *std::move(tensor)).first->second;
}

//===----------------------------------------------------------------------===//
// Caches
//===----------------------------------------------------------------------===//

/// Rows [first, first + count) of [T, ...].
static Tensor rowsOf(const Tensor &x, int64_t first, int64_t count) {
  std::vector<int64_t> shape = x.shape;
  int64_t size = x.dim(0) ? x.count() / x.dim(0) : 0;
  shape[0] = count;
  auto begin = x.data.begin() + first * size;
  return Tensor(shape, std::vector<double>(begin, begin + count * size));
}

/// The first `keep` rows of `old` (may be empty), then `added`.
static Tensor appended(const Tensor &old, int64_t keep, const Tensor &added) {
  std::vector<int64_t> shape = added.shape;
  shape[0] += keep;
  std::vector<double> data;
  if (keep)
    data = rowsOf(old, 0, keep).data;
  data.insert(data.end(), added.data.begin(), added.data.end());
  return Tensor(shape, std::move(data));
}

/// `k` is null where values are stored alone.
static Results cacheAppend(const CacheValue &cache, const Tensor *k, const Tensor &v,
                           const Batch &batch) {
  if ((k && k->dim(0) != batch.tokens()) || v.dim(0) != batch.tokens())
    return badInput("expected keys and values of " + std::to_string(batch.tokens()) +
                    " tokens, got " + (k ? std::to_string(k->dim(0)) + " and " : "") +
                    std::to_string(v.dim(0)));
  CacheValue next = cache;
  for (int64_t b = 0; b < batch.size(); ++b) {
    int64_t sequence = batch.sequences[size_t(b)], first = batch.firstPosition(b);
    const KeyValues *old = cache.find(sequence);
    int64_t length = old ? old->length() : 0;
    // Tokens may be taken back, never left out.
    if (length < first)
      return badInput("sequence " + std::to_string(sequence) + ": the step begins at position " +
                      std::to_string(first) + ", the cache ends at " + std::to_string(length));
    int64_t start = batch.rowStarts[size_t(b)], count = batch.rowSize(b);
    KeyValues empty;
    const KeyValues &kept = old ? *old : empty;
    next.set(sequence, {k ? appended(kept.k, first, rowsOf(*k, start, count)) : Tensor(),
                        appended(kept.v, first, rowsOf(v, start, count))});
  }
  return one(next);
}

Tensor keysOfValues(ir::KeysOfValuesAttr keys, const Tensor &w, const Tensor &v) {
  std::vector<int64_t> positions(size_t(v.dim(0)));
  std::iota(positions.begin(), positions.end(), 0);
  return keysOfValues(keys.getTheta().getValueAsDouble(), keys.getRot(), keys.getDenom(),
                      keys.getActive(), w, positions, v);
}

/// `keyNorm` is the weight of the op's `keys`, null without.
static Results attention(ir::GqaOp op, const Tensor &q, const CacheValue &cache, const Batch &batch,
                         const Tensor *keyNorm) {
  if (q.dim(0) != batch.tokens())
    return badInput("expected queries of " + std::to_string(batch.tokens()) + " tokens, got " +
                    std::to_string(q.dim(0)));
  std::optional<int64_t> window;
  if (op.getWindow())
    window = int64_t(*op.getWindow());
  Tensor o({0, q.dim(1), q.dim(2)});
  for (int64_t b = 0; b < batch.size(); ++b) {
    const KeyValues *kv = cache.find(batch.sequences[size_t(b)]);
    if (!kv || kv->length() < batch.seqLens[size_t(b)])
      return badInput("sequence " + std::to_string(batch.sequences[size_t(b)]) + ": expected " +
                      std::to_string(batch.seqLens[size_t(b)]) + " cached positions, got " +
                      std::to_string(kv ? kv->length() : 0));
    if (kv->v.dim(1) != int64_t(op.getKvHeads()) || kv->v.width() != q.width())
      return badInput("expected " + std::to_string(op.getKvHeads()) + " key heads of " +
                      std::to_string(q.width()) + ", got " + std::to_string(kv->v.dim(1)) + " of " +
                      std::to_string(kv->v.width()));
    Tensor computed;
    if (keyNorm)
      computed = keysOfValues(*op.getKeys(), *keyNorm, kv->v);
    Tensor queries = rowsOf(q, batch.rowStarts[size_t(b)], batch.rowSize(b));
    Tensor part = gqa(op.getScale().convertToDouble(), window, batch.positions(b), queries,
                      keyNorm ? computed : kv->k, kv->v);
    o = appended(o, o.dim(0), part);
  }
  return one(std::move(o));
}

//===----------------------------------------------------------------------===//
// All ops
//===----------------------------------------------------------------------===//

/// Null, or what is wrong: an entry outside [0, end).
static Status inRange(const Ids &ids, int64_t end, const char *what) {
  for (int32_t id : ids)
    if (id < 0 || id >= end)
      return badInput(std::string(what) + " " + std::to_string(id) + ", expected 0 to " +
                      std::to_string(end - 1));
  return {};
}

static std::optional<double> optionalF64(std::optional<APFloat> value) {
  if (!value)
    return std::nullopt;
  return value->convertToDouble();
}

namespace {
/// Evaluates one op; the operands are typed by the op's verifier.
class Evaluator {
public:
  Evaluator(Operation *op, std::span<const NodeValue *const> operands, LoadedWeights &weights)
      : op(op), operands(operands), weights(weights) {}

  Results run() {
    return llvm::TypeSwitch<Operation *, Results>(op)
        .Case([&](ir::EmbedOp o) -> Results {
          return withWeight(o.getWeight(), [&](const Tensor &w) -> Results {
            if (Status ok = inRange(ids(0), w.dim(0), "token id"); !ok)
              return ok;
            return one(embed(o.getMul().convertToDouble(), w, ids(0)));
          });
        })
        .Case([&](ir::SelectRowsOp o) -> Results {
          if (Status ok = inRange(ids(1), tensor(0).dim(0), "row"); !ok)
            return ok;
          return one(embed(1, tensor(0), ids(1)));
        })
        .Case([&](ir::LmHeadOp o) {
          return withWeight(o.getWeight(), [&](const Tensor &w) {
            return one(
                lmHead(o.getMul().convertToDouble(), optionalF64(o.getSoftcap()), w, tensor(0)));
          });
        })
        .Case([&](ir::TopKOp o) -> Results {
          if (int64_t(o.getK()) > tensor(0).width())
            return badInput("k = " + std::to_string(o.getK()) + " of rows of " +
                            std::to_string(tensor(0).width()));
          TopK top = topK(int64_t(o.getK()), tensor(0));
          return std::vector<NodeValue>{std::move(top.values), std::move(top.ids)};
        })
        .Case([&](ir::RmsNormOp o) {
          return withWeight(o.getWeight(),
                            [&](const Tensor &w) { return one(rmsnorm(eps(o), tensor(0), w)); });
        })
        .Case([&](ir::RmsNormOffsetOp o) {
          return withWeight(o.getWeight(), [&](const Tensor &w) {
            return one(rmsnormOffset(eps(o), tensor(0), w));
          });
        })
        .Case([&](ir::RmsNormGatedOp o) {
          return withWeight(o.getWeight(), [&](const Tensor &w) {
            return one(rmsnormGated(eps(o), tensor(0), tensor(1), w));
          });
        })
        .Case([&](ir::RmsNormUnitOp o) { return one(rmsnormUnit(eps(o), tensor(0))); })
        .Case([&](ir::L2NormOp o) { return one(l2norm(eps(o), tensor(0))); })
        .Case([&](ir::LinearOp o) {
          return withWeight(o.getWeight(),
                            [&](const Tensor &w) { return one(linear(w, tensor(0))); });
        })
        .Case([&](ir::GeluMulOp) { return one(geluMul(tensor(0))); })
        .Case([&](ir::SiluMulOp) { return one(siluMul(tensor(0))); })
        .Case([&](ir::SigmoidGateOp) { return one(sigmoidGate(tensor(0), tensor(1))); })
        .Case([&](ir::ResidualOp o) {
          double r = o.getR().convertToDouble();
          if (!o.getLayerScalar())
            return one(residual(r, 1, tensor(0), tensor(1)));
          return withWeight(*o.getLayerScalar(), [&](const Tensor &s) {
            return one(residual(r, s.data[0], tensor(0), tensor(1)));
          });
        })
        .Case([&](ir::RopeOp o) -> Results {
          if (Status ok = fitsBatch(tensor(0), batch(1)); !ok)
            return ok;
          return one(rope(o.getTheta().convertToDouble(), int64_t(o.getRot()),
                          int64_t(o.getDenom()), int64_t(o.getActive()), batch(1).positions(),
                          tensor(0)));
        })
        .Case([&](ir::RopeStdOp o) -> Results {
          if (Status ok = fitsBatch(tensor(0), batch(1)); !ok)
            return ok;
          return one(ropeStd(o.getTheta().convertToDouble(), int64_t(o.getRot()),
                             batch(1).positions(), tensor(0)));
        })
        .Case([&](ir::CacheAppendOp o) {
          if (!o.getK())
            return cacheAppend(as<CacheValue>(0), nullptr, tensor(1), batch(2));
          return cacheAppend(as<CacheValue>(0), &tensor(1), tensor(2), batch(3));
        })
        .Case([&](ir::GqaOp o) {
          if (!o.getKeys())
            return attention(o, tensor(0), as<CacheValue>(1), batch(2), nullptr);
          return withWeight(o.getKeys()->getNorm().getValue(), [&](const Tensor &w) {
            return attention(o, tensor(0), as<CacheValue>(1), batch(2), &w);
          });
        })
        .Default([&](Operation *) { return evaluateTensorOp(op, operands); });
  }

private:
  template <typename T> const T &as(size_t i) const { return std::get<T>(*operands[i]); }
  const Tensor &tensor(size_t i) const { return as<Tensor>(i); }
  const Ids &ids(size_t i) const { return as<Ids>(i); }
  const Batch &batch(size_t i) const { return as<Batch>(i); }
  template <typename Op> static double eps(Op o) { return o.getEps().convertToDouble(); }

  template <typename Body> Results withWeight(StringRef symbol, Body body) {
    Expected<const Tensor *> weight = weights.get(symbol);
    if (!weight)
      return weight.error();
    return body(**weight);
  }

  static Status fitsBatch(const Tensor &x, const Batch &batch) {
    if (x.dim(0) == batch.tokens())
      return {};
    return badInput("expected " + std::to_string(batch.tokens()) + " tokens, got " +
                    std::to_string(x.dim(0)));
  }

  Operation *op;
  std::span<const NodeValue *const> operands;
  LoadedWeights &weights;
};
} // namespace

/// Whether a value can stand for an SSA value of this type.
static bool fits(Type type, const NodeValue &value) {
  if (isa<ir::BatchType>(type))
    return std::holds_alternative<Batch>(value);
  if (isa<ir::CacheType>(type))
    return std::holds_alternative<CacheValue>(value);
  if (type.isIndex())
    return std::holds_alternative<int64_t>(value);
  auto shaped = dyn_cast<RankedTensorType>(type);
  if (!shaped)
    return false;
  if (shaped.getElementType().isInteger())
    return std::holds_alternative<Ids>(value);
  auto *tensor = std::get_if<Tensor>(&value);
  if (!tensor || tensor->rank() != shaped.getRank())
    return false;
  for (auto [got, expected] : llvm::zip(tensor->shape, shaped.getShape()))
    if (!ShapedType::isDynamic(expected) && got != expected)
      return false;
  return true;
}

static Results evaluateChecked(Operation *op, std::span<const NodeValue *const> operands,
                               LoadedWeights &weights) {
  for (OpOperand &operand : op->getOpOperands())
    if (!fits(operand.get().getType(), *operands[operand.getOperandNumber()]))
      return badInput("operand " + std::to_string(operand.getOperandNumber()) +
                      " does not have the operand's type");
  return Evaluator(op, operands, weights).run();
}

Results evaluate(Operation *op, std::span<const NodeValue *const> operands,
                 LoadedWeights &weights) {
  Results results = evaluateChecked(op, operands, weights);
  if (results)
    return results;
  std::string where = op->getName().getStringRef().str();
  if (StringRef key = ir::nodeKey(op->getLoc()); !key.empty())
    where += " at " + key.str();
  return Error{results.error().kind, where + ": " + results.error().message};
}

} // namespace gemma::reference
