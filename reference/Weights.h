// Where the interpreter's weights come from: a checkpoint, or seeded random numbers.
#pragma once

#include "dialect/program/Program.h"
#include "reference/Tensor.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <string_view>

namespace gemma::reference {

class WeightSource {
public:
  virtual ~WeightSource() = default;
  /// The logical tensor of `weight`: its sources, one below the other.
  virtual Expected<Tensor> weight(program::WeightOp weight) = 0;
};

/// The tensors of a checkpoint, widened exactly.
class CheckpointWeights : public WeightSource {
public:
  /// `checkpoint` must outlive this.
  explicit CheckpointWeights(const Checkpoint &checkpoint) : checkpoint(checkpoint) {}
  Expected<Tensor> weight(program::WeightOp weight) override;

private:
  const Checkpoint &checkpoint;
};

/// A tensor of random numbers that suits its canonical name: norm weights 1 ± 0.3 (those of q and k
/// scaled so that q·k has a standard deviation of about 1.4), layer scalars in [0.3, 1.2], tables
/// so that logits have one of about 3, other matrices with variance 1/K. Every value is a bf16
/// number; the same seed, name and shape give the same numbers on every machine.
Tensor randomTensor(uint64_t seed, std::string_view name, std::vector<int64_t> shape);

/// Random weights. A recipe of several sources is the concatenation of their random tensors if
/// `shapes` knows them all, else one random tensor of the whole shape.
class RandomWeights : public WeightSource {
public:
  explicit RandomWeights(uint64_t seed, TensorTable shapes = {})
      : seed(seed), shapes(std::move(shapes)) {}
  Expected<Tensor> weight(program::WeightOp weight) override;

private:
  uint64_t seed;
  TensorTable shapes;
};

} // namespace gemma::reference
