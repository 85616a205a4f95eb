#include "reference/Weights.h"

#include "runtime/checkpoint/Widen.h"
#include "runtime/support/BFloat16.h"

#include <cmath>

namespace gemma::reference {

//===----------------------------------------------------------------------===//
// From a checkpoint
//===----------------------------------------------------------------------===//

Expected<Tensor> CheckpointWeights::weight(program::WeightOp weight) {
  Tensor result;
  result.shape = weight.getType().getShape().vec();
  for (auto source : weight.getSources().getAsRange<mlir::StringAttr>()) {
    auto found = checkpoint.tensors().find(source.str());
    if (found == checkpoint.tensors().end())
      return badInput("weight @" + weight.getSymName().str() + ": the checkpoint has no tensor " +
                      source.str());
    const TensorInfo &tensor = found->second;
    std::vector<double> values = widenAll(tensor.type, checkpoint.data(tensor));
    result.data.insert(result.data.end(), values.begin(), values.end());
  }
  if (int64_t(result.data.size()) != result.count())
    return badInput("weight @" + weight.getSymName().str() + ": expected " +
                    std::to_string(result.count()) + " elements, its sources have " +
                    std::to_string(result.data.size()));
  return result;
}

//===----------------------------------------------------------------------===//
// Random
//===----------------------------------------------------------------------===//

namespace {
/// SplitMix64: integer arithmetic only, so equal everywhere.
class Generator {
public:
  Generator(uint64_t seed, std::string_view name) : state(seed) {
    for (char c : name)
      state = (state ^ uint8_t(c)) * 0x100000001b3u + 0x9e3779b97f4a7c15u;
  }
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double uniform() { return double(next() >> 11) * 0x1p-53; }
  /// Mean 0, variance 1, nearly normal: the sum of four uniform numbers of 16 bits.
  double normal() {
    uint64_t bits = next(), sum = 0;
    for (int i = 0; i < 4; ++i)
      sum += (bits >> (16 * i)) & 0xffff;
    return (double(sum) * 0x1p-16 - 2) * std::sqrt(3.0);
  }

private:
  uint64_t state;
};
} // namespace

Tensor randomTensor(uint64_t seed, std::string_view name, std::vector<int64_t> shape) {
  auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  Tensor tensor(std::move(shape));
  Generator random(seed, name);
  double width = double(tensor.width());
  double headNorm = has("q_norm") || has("k_norm") ? std::sqrt(1.4 / std::sqrt(width)) : 1;
  double deviation = (has("embed_tokens") || has("lm_head") ? 3 : 1) / std::sqrt(width);
  for (double &value : tensor.data) {
    if (has("layer_scalar"))
      value = 0.3 + 0.9 * random.uniform();
    else if (has("norm"))
      value = headNorm * (0.7 + 0.6 * random.uniform());
    else
      value = deviation * random.normal();
    value = bf16ToF32(f32ToBf16(float(value)));
  }
  return tensor;
}

Expected<Tensor> RandomWeights::weight(program::WeightOp weight) {
  std::vector<int64_t> shape = weight.getType().getShape().vec();
  Tensor result;
  result.shape = shape;
  std::string names;
  bool known = true;
  for (auto source : weight.getSources().getAsRange<mlir::StringAttr>()) {
    names += source.str() + "\n";
    auto found = shapes.find(source.str());
    if (!(known = known && found != shapes.end()))
      continue;
    Tensor part = randomTensor(seed, source.str(), found->second.shape);
    result.data.insert(result.data.end(), part.data.begin(), part.data.end());
  }
  if (!known)
    return randomTensor(seed,
                        weight.getSources().size() == 1
                            ? llvm::cast<mlir::StringAttr>(weight.getSources()[0]).str()
                            : names,
                        shape);
  if (int64_t(result.data.size()) != result.count())
    return badInput("weight @" + weight.getSymName().str() + ": expected " +
                    std::to_string(result.count()) + " elements, its sources have " +
                    std::to_string(result.data.size()));
  return result;
}

} // namespace gemma::reference
