#include "runtime/weights/TensorSource.h"

#include "runtime/checkpoint/Widen.h"

namespace gemma {

void CheckpointTensors::read(const std::string &, const TensorInfo &tensor, uint64_t first,
                             std::span<float> out) const {
  widen(tensor.type, checkpoint.data(tensor), size_t(first), out);
}

void CheckpointTensors::read(const std::string &, const TensorInfo &tensor, uint64_t first,
                             std::span<double> out) const {
  widen(tensor.type, checkpoint.data(tensor), size_t(first), out);
}

void CheckpointTensors::release(const std::string &name) const {
  auto found = checkpoint.tensors().find(name);
  if (found != checkpoint.tensors().end())
    checkpoint.dropPages(found->second);
}

} // namespace gemma
