// The phases of the compiler as named pipelines. The order here is the architecture.
#pragma once

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace gemma::passes {

/// What the phases need to know; the same options in gemma-opt and gemma-compile.
struct PhaseOptions : mlir::PassPipelineOptions<PhaseOptions> {
  Option<std::string> family{*this, "family",
                             llvm::cl::desc("kind of device to plan for: host or cuda"),
                             llvm::cl::init("host")};
  Option<bool> fusion{*this, "fusion", llvm::cl::desc("fuse nodes into few launches"),
                      llvm::cl::init(true)};
  Option<bool> kvSharing{*this, "kv-sharing",
                         llvm::cl::desc("store values alone where keys follow from them"),
                         llvm::cl::init(true)};
  Option<bool> deterministic{
      *this, "deterministic",
      llvm::cl::desc("a token's result depends neither on the variant nor on the batch"),
      llvm::cl::init(false)};
  Option<int64_t> maxContext{*this, "max-context", llvm::cl::desc("most positions of a sequence"),
                             llvm::cl::init(8192)};
  Option<int64_t> maxBatch{*this, "max-batch", llvm::cl::desc("most sequences of a step"),
                           llvm::cl::init(1)};
  Option<int64_t> maxChunk{*this, "max-chunk", llvm::cl::desc("most tokens of a step"),
                           llvm::cl::init(512)};
  Option<int64_t> maxLogitRows{*this, "max-logit-rows", llvm::cl::desc("most logit rows of a step"),
                               llvm::cl::init(512)};
};

void buildImportPhase(mlir::OpPassManager &pm, const PhaseOptions &options);
void buildOptimizePhase(mlir::OpPassManager &pm, const PhaseOptions &options);
void buildLowerPhase(mlir::OpPassManager &pm, const PhaseOptions &options);
void buildMemoryPhase(mlir::OpPassManager &pm, const PhaseOptions &options);

/// gemma-phase-import, -optimize, -lower, -memory, and gemma-compile-phases (all of them).
void registerPipelines();

} // namespace gemma::passes
