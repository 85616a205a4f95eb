// A model configuration becomes L1: spec nodes on tensors, weights and caches as symbols.
#pragma once

#include "runtime/checkpoint/ModelConfig.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/OwningOpRef.h"

namespace gemma {

struct ImportOptions {
  /// F64 or F32: every element type. BF16: weights and caches bf16, the rest f32.
  ScalarType dtype = ScalarType::BF16;
  /// With BF16: what launches hand on, but for the residual stream, is stored as bf16 too.
  bool narrowActivations = false;
  /// I8 or I4: how matrices are stored, and those of the token table and of the head; with F32 and
  /// BF16. `codes`: I8 or I16, what contractions with them round their activations to.
  std::optional<ScalarType> matrices{}, table{};
  ScalarType codes = ScalarType::I8;
  /// How caches store keys and values: F32, BF16 or I8, with dtypes F32 and BF16; unset: the dtype.
  std::optional<ScalarType> kv{};
  /// How many of the largest logits of a row the step also gives, with their ids; 0: none.
  int64_t top = 0;
};

/// The dialects that an imported module uses.
void registerImportDialects(mlir::DialectRegistry &registry);

/// The module of one model. It holds
///
///   gemma.numerics                         the element types; tensors have the accumulator's, the
///                                          others say how memory holds them
///   program.weight @embed_tokens, @l0.input_norm, @l0.qkv, ..., @final_norm (, @lm_head if untied)
///   program.cache  @c0, @c1, ...           a ring for sliding layers, paged for global ones
///   func.func @step(tokens [T], batch, logit_rows [R], cache 0, cache 1, ...)
///       -> (logits [R, V], cache 0, cache 1, ... (, top_values [R, k], top_ids [R, k]))
///
/// Results that are tensors carry the name of the program's output as `gemma.output`.
/// Every op's location is its spec key (dialect/gemma/NodeKey.h). The result is verified; null,
/// with a diagnostic, if `options` or `config` cannot be expressed.
mlir::OwningOpRef<mlir::ModuleOp> importModel(mlir::MLIRContext &context, const ModelConfig &config,
                                              const ImportOptions &options);

} // namespace gemma
