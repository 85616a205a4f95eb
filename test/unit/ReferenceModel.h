// A checkpoint of test/data/models, imported, with its reference.safetensors: for tests of whole
// models.
#pragma once

#include "import/Import.h"
#include "reference/Interpreter.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/Widen.h"

#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <string>

namespace gemma::test {

using reference::Batch;
using reference::Ids;
using reference::Interpreter;
using reference::KeyValues;
using reference::NodeValue;
using reference::Tensor;

/// max|a - b| / max|b|; infinity if the shapes differ or a number is not finite.
inline double distance(const Tensor &got, const Tensor &expected) {
  if (got.shape != expected.shape)
    return INFINITY;
  double largest = 0, worst = 0;
  for (size_t i = 0; i < got.data.size(); ++i) {
    if (!std::isfinite(got.data[i]) || !std::isfinite(expected.data[i]))
      return INFINITY;
    largest = std::max(largest, std::fabs(expected.data[i]));
    worst = std::max(worst, std::fabs(got.data[i] - expected.data[i]));
  }
  return worst == 0 ? 0 : worst / largest;
}

/// Rows [first, last) of [T, N].
inline Tensor rowRange(const Tensor &x, int64_t first, int64_t last) {
  Tensor y({last - first, x.width()});
  std::copy_n(x.data.begin() + first * x.width(), y.data.size(), y.data.begin());
  return y;
}

/// [x ‖ y ‖ ...] of matrices with equal row counts.
inline Tensor sideBySide(const std::vector<Tensor> &parts) {
  int64_t width = 0;
  for (const Tensor &part : parts)
    width += part.width();
  Tensor result({parts.front().dim(0), width});
  int64_t at = 0;
  for (const Tensor &part : parts) {
    for (int64_t t = 0; t < part.dim(0); ++t)
      std::copy_n(part.row(t).begin(), part.width(), result.row(t).begin() + at);
    at += part.width();
  }
  return result;
}

inline Ids allRows(int64_t count) {
  Ids rows;
  for (int64_t i = 0; i < count; ++i)
    rows.push_back(int32_t(i));
  return rows;
}

/// reference.safetensors by name.
class ReferenceFile {
public:
  explicit ReferenceFile(SafetensorsFile file) : file(std::move(file)) {}

  const SafetensorsFile &tensors() const { return file; }

  std::optional<Tensor> find(const std::string &name) const {
    const SafetensorsEntry *entry = file.find(name);
    if (!entry)
      return std::nullopt;
    return Tensor(entry->shape, widenAll(*entry->type, file.data(*entry)));
  }
  /// Fails the test if there is none.
  Tensor tensor(const std::string &name) const {
    std::optional<Tensor> found = find(name);
    EXPECT_TRUE(found) << name;
    return found ? *found : Tensor();
  }
  Ids ids(const std::string &name) const {
    const SafetensorsEntry *entry = file.find(name);
    EXPECT_TRUE(entry) << name;
    if (!entry)
      return {};
    std::vector<int64_t> wide(size_t(entry->shape[0]));
    std::memcpy(wide.data(), file.data(*entry).data(), wide.size() * 8);
    return Ids(wide.begin(), wide.end());
  }
  /// The L of every prompt.L.tokens.
  std::vector<int64_t> promptLengths() const {
    std::vector<int64_t> lengths;
    for (const SafetensorsEntry &entry : file.entries())
      if (entry.name.starts_with("prompt.") && entry.name.ends_with(".tokens"))
        lengths.push_back(entry.shape[0]);
    return lengths;
  }
  /// The length of the prompt whose inner values are there, as names have it.
  std::string innerPrompt() const { return file.metadata().at("hidden_prompt"); }
  /// The names of the inner values that are the output of a node or part of one.
  std::vector<std::string> innerNames() const {
    std::vector<std::string> names;
    for (const SafetensorsEntry &entry : file.entries()) {
      const std::string &name = entry.name;
      bool inner = name.starts_with("hidden." + innerPrompt() + ".") ||
                   name.starts_with("sub." + innerPrompt() + ".");
      // The activation of the gate is inside the node mlp.act; a layer's input is the output
      // before.
      if (inner && !name.ends_with(".gelu") && !name.ends_with(".layer_input"))
        names.push_back(name);
    }
    return names;
  }

private:
  SafetensorsFile file;
};

/// Checkpoint, module and reference of one folder.
struct ReferenceModel {
  mlir::MLIRContext context;
  Checkpoint checkpoint;
  ReferenceFile reference;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  reference::CheckpointWeights weights{checkpoint};

  ReferenceModel(Checkpoint opened, SafetensorsFile file)
      : checkpoint(std::move(opened)), reference(std::move(file)),
        module(importModel(context, checkpoint.config(), {ScalarType::F64})) {}

  /// Null, and the test fails, if a file is not as it should be. `folder`: from the repository
  /// root.
  static std::unique_ptr<ReferenceModel> open(const std::string &folder) {
    std::string path = GEMMA_SOURCE_DIR "/" + folder;
    Expected<Checkpoint> checkpoint = Checkpoint::open(path);
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    Expected<SafetensorsFile> file = SafetensorsFile::open(path + "/reference.safetensors");
    EXPECT_TRUE(file) << file.error().message;
    if (!checkpoint || !file)
      return nullptr;
    auto model = std::make_unique<ReferenceModel>(*std::move(checkpoint), *std::move(file));
    EXPECT_TRUE(model->module);
    return model->module ? std::move(model) : nullptr;
  }
};

/// The logits of every token; the test fails on an error.
inline Tensor logitsOf(Interpreter &interpreter, const Batch &batch, const Ids &tokens) {
  auto result = interpreter.step(batch, tokens, allRows(int64_t(tokens.size())));
  EXPECT_TRUE(result) << result.error().message;
  return result ? result->logits() : Tensor();
}

} // namespace gemma::test
