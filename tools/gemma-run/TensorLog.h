// What --logits-out and --nodes-out write.
#pragma once

#include "runtime/engine/Context.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gemma::run {

/// A tensor that grows by rows while a prompt is computed, in the type it was computed in.
class TensorLog {
public:
  /// Appends row `row` of the view.
  void append(const std::string &name, const OutputView &view, int64_t row,
              const std::vector<int64_t> &rowShape);

  /// Writes all of them as safetensors, in the order of their first row.
  Status write(const std::filesystem::path &path) const;

private:
  struct Tensor {
    std::string name;
    ScalarType type;
    std::vector<int64_t> rowShape;
    int64_t rows = 0;
    std::vector<std::byte> bytes;
  };
  std::vector<Tensor> tensors;
};

} // namespace gemma::run
