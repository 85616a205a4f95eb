#include "tools/gemma-run/TensorLog.h"

#include "runtime/checkpoint/SafetensorsWriter.h"

#include <algorithm>

namespace gemma::run {

void TensorLog::append(const std::string &name, const OutputView &view, int64_t row,
                       const std::vector<int64_t> &rowShape) {
  auto found = std::find_if(tensors.begin(), tensors.end(),
                            [&](const Tensor &tensor) { return tensor.name == name; });
  if (found == tensors.end())
    found = tensors.insert(tensors.end(), Tensor{name, view.type, rowShape, 0, {}});
  size_t rowBytes = size_t(view.rowElements) * byteWidth(view.type);
  const std::byte *from = view.data + size_t(row) * rowBytes;
  found->bytes.insert(found->bytes.end(), from, from + rowBytes);
  ++found->rows;
}

Status TensorLog::write(const std::filesystem::path &path) const {
  SafetensorsWriter writer;
  for (const Tensor &tensor : tensors) {
    std::vector<int64_t> shape = {tensor.rows};
    shape.insert(shape.end(), tensor.rowShape.begin(), tensor.rowShape.end());
    writer.add(tensor.name, tensor.type, std::move(shape), tensor.bytes);
  }
  return writer.write(path);
}

} // namespace gemma::run
