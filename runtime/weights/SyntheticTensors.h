// Weights that no training made: for measuring a model of any size without its checkpoint.
#pragma once

#include "runtime/weights/TensorSource.h"

#include <cstdint>

namespace gemma {

/// The tensors that a model of a configuration has, with made-up values of bf16: an element depends
/// on the seed, the tensor's name and its place there alone, so that every machine and any number
/// of threads make the same ones. A matrix [N, K] has nearly normal elements of deviation 1/sqrt(K)
/// (none beyond 3.5 of them), which keeps activations about as large as they are in a trained
/// model; a vector has 1 plus a tenth of that.
class SyntheticTensors final : public TensorSource {
public:
  SyntheticTensors(const ModelConfig &config, uint64_t seed);

  const TensorTable &tensors() const override { return table; }
  std::string title() const override { return "synthetic weights"; }
  void read(const std::string &name, const TensorInfo &tensor, uint64_t first,
            std::span<float> out) const override;
  void read(const std::string &name, const TensorInfo &tensor, uint64_t first,
            std::span<double> out) const override;

private:
  TensorTable table;
  uint64_t seed;
};

} // namespace gemma
