// Builds the body of @step, node by node as the spec page lists them.
#pragma once

#include "dialect/gemma/Gemma.h"
#include "runtime/checkpoint/ModelConfig.h"

#include "mlir/IR/Builders.h"

#include <string>

namespace gemma {

/// Shapes in comments: T tokens of the step, R selected rows, H hidden, I intermediate, V
/// vocabulary, h query heads, c key/value heads, D head dimension of the layer.
class ModelBuilder {
public:
  ModelBuilder(mlir::OpBuilder &builder, const ModelConfig &config, ir::NumericsAttr numerics)
      : builder(builder), config(config), numerics(numerics) {}

  /// [T] -> [T, H]. To be called first.
  mlir::Value embed(mlir::Value tokens);
  /// [T, H] -> [T, H]. `cache` is replaced by the version that holds the step's keys and values.
  mlir::Value decoderLayer(int64_t index, mlir::Value x, mlir::Value batch, mlir::Value &cache);
  /// [T, H], [R] -> [R, V]
  mlir::Value head(mlir::Value x, mlir::Value logitRows);
  /// [R, V] -> the k largest of each row and their ids, [R, k] each
  std::pair<mlir::Value, mlir::Value> top(mlir::Value logits, int64_t k);

private:
  /// [T, H] -> [T, h D], before the output projection.
  mlir::Value attention(mlir::Value x, mlir::Value batch, mlir::Value &cache);

  // One op each. `node` is the spec key within the layer, if there is one; `weight` likewise.
  mlir::Value rmsnorm(mlir::StringRef node, mlir::Value x, mlir::StringRef weight,
                      mlir::StringRef part = "");
  mlir::Value linear(mlir::StringRef node, mlir::Value x, mlir::StringRef weight, int64_t n);
  mlir::Value rope(mlir::Value x, mlir::Value batch, mlir::StringRef part);
  /// Columns [first, first + heads D) of [T, N] as [T, heads, D].
  mlir::Value splitHeads(mlir::Value x, int64_t first, int64_t heads, mlir::StringRef part);
  /// [T, h, D] -> [T, h D]
  mlir::Value joinHeads(mlir::Value x);

  /// "layers[3].attn.rope" in a layer, "final_norm" outside.
  mlir::Location at(mlir::StringRef node, mlir::StringRef part = "");
  /// @l3.qkv in a layer, @final_norm outside.
  mlir::FlatSymbolRefAttr symbol(mlir::StringRef weight);
  /// [?, shape...] of the activations' type.
  mlir::RankedTensorType rows(mlir::ArrayRef<int64_t> shape);
  const AttentionConfig &attentionOfLayer() const {
    return config.attention(config.layerKinds[size_t(layer)]);
  }

  mlir::OpBuilder &builder;
  const ModelConfig &config;
  ir::NumericsAttr numerics;
  mlir::Value tokenCount; ///< T, set by embed()
  int64_t layer = -1;     ///< the layer under construction, -1 outside
};

} // namespace gemma
