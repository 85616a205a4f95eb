// What the optimize phase decides about one launch sequence, carried by its function.
#pragma once

#include "dialect/program/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IntegerSet.h"

namespace gemma::passes {

/// What kind of device a program runs on: the host's cores, or CUDA devices and their emulator.
enum class Family { Host, Cuda };
/// "host", "cuda".
llvm::StringRef familyName(Family family);
std::optional<Family> familyOf(llvm::StringRef name);

/// Attribute `gemma.variant` of a clone of `step`.
struct VariantPlan {
  std::string name;
  Family family = Family::Host;
  mlir::IntegerSet condition;
  bool hoistRows = false;     ///< norm chains run inside the projection that reads them
  bool fuseAttention = false; ///< head norms, rope and append run inside the attention
  bool fuseRows = false;      ///< chains of row nodes, and GeGLU with its projection
  int64_t tokenTile = 0;      ///< Cuda: tokens that a block of a projection computes; 0: by shape
  bool splitWork = false;     ///< Cuda: blocks share tiles of projections and keys of attentions
  int64_t maxTokens = 0;
  int64_t maxSequences = 0;
  int64_t minSequences = 1; ///< fewer run another variant
  int64_t maxLogitRows = 0;

  static constexpr llvm::StringLiteral attributeName = "gemma.variant";
  void attach(mlir::func::FuncOp function) const;
  /// Nothing if the function is not a variant.
  static std::optional<VariantPlan> of(mlir::func::FuncOp function);
};

/// Attribute `gemma.limits` of the module: the sizes everything is planned for.
struct PlanLimits {
  int64_t maxContext = 0;
  int64_t maxBatch = 0;
  int64_t maxChunk = 0;
  int64_t maxLogitRows = 0;

  static constexpr llvm::StringLiteral attributeName = "gemma.limits";
  void attach(mlir::ModuleOp module) const;
  static std::optional<PlanLimits> of(mlir::ModuleOp module);
  program::LargestSizes largestSizes() const { return {maxChunk, maxBatch, maxLogitRows}; }
};

} // namespace gemma::passes
