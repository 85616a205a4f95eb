#include "passes/Pipelines.h"

#include "passes/Passes.h"

#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace gemma::passes {

static void closePhase(OpPassManager &pm, const char *phase) {
  pm.addPass(createVerifyPhase({phase}));
}

void buildImportPhase(OpPassManager &pm, const PhaseOptions &) {
  // Folds that are exact, and slices that nobody reads.
  pm.addPass(createCanonicalizerPass());
  closePhase(pm, "import");
}

void buildOptimizePhase(OpPassManager &pm, const PhaseOptions &options) {
  // 1. Half the memory of the caches that allow it. Unfused, every node of the spec has its own
  // launch and output, keys included.
  if (options.fusion && options.kvSharing)
    pm.addPass(createShareKv());
  // 2. One clone of step a launch sequence; everything after follows its plan.
  pm.addPass(
      createMakeVariants({options.family, options.fusion, options.deterministic, options.maxChunk,
                          options.maxBatch, options.maxLogitRows, options.maxContext}));
  // 3. What one launch will do.
  pm.addNestedPass<func::FuncOp>(createFormGroups());
  closePhase(pm, "optimize");
}

void buildLowerPhase(OpPassManager &pm, const PhaseOptions &) {
  // 1. Layouts follow the groups: gate and up interleave where their activation is fused.
  pm.addPass(createPlanStorage());
  // 2. Kernels and launch lists.
  pm.addPass(createLowerGroups());
  closePhase(pm, "lower");
}

void buildMemoryPhase(OpPassManager &pm, const PhaseOptions &) {
  pm.addNestedPass<program::VariantOp>(createPlanArena());
  closePhase(pm, "memory");
}

void registerPipelines() {
  PassPipelineRegistration<PhaseOptions>("gemma-phase-import", "close the import phase",
                                         buildImportPhase);
  PassPipelineRegistration<PhaseOptions>("gemma-phase-optimize", "variants and groups",
                                         buildOptimizePhase);
  PassPipelineRegistration<PhaseOptions>("gemma-phase-lower", "kernels and launch lists",
                                         buildLowerPhase);
  PassPipelineRegistration<PhaseOptions>("gemma-phase-memory", "places of buffers",
                                         buildMemoryPhase);
  PassPipelineRegistration<PhaseOptions>("gemma-compile-phases",
                                         "every phase from import to memory",
                                         [](OpPassManager &pm, const PhaseOptions &options) {
                                           buildImportPhase(pm, options);
                                           buildOptimizePhase(pm, options);
                                           buildLowerPhase(pm, options);
                                           buildMemoryPhase(pm, options);
                                         });
}

} // namespace gemma::passes
