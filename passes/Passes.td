// Every pass of the compiler, by phase, in running order.
#ifndef GEMMA_PASSES_TD
#define GEMMA_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// optimize
//===----------------------------------------------------------------------===//

def ShareKv : Pass<"gemma-share-kv", "::mlir::ModuleOp"> {
  let summary = "Store the values alone where a layer's keys are proven to be rope(w * V)";
  let description = [{
    Where the key of a cache's every append is rope(rmsnorm(x, w)) and its value rmsnorm_unit(x) of the
    same x, the cache gets `lanes [v]` and its readers compute the keys they need. A layer whose
    structure does not prove this is left alone. Moves roundings: f64 results stay within 1e-13.
  }];
}

def MakeVariants : Pass<"gemma-make-variants", "::mlir::ModuleOp"> {
  let summary = "Clone step once per launch sequence that will be compiled";
  let description = [{
    Replaces `@step` by one function a variant, each with the condition on the step's sizes under which
    it runs and the largest sizes it can see. With `fusion=false` there is one variant for all sizes.
  }];
  let options = [
    Option<"family", "family", "std::string", "\"host\"", "kind of device to plan for: host or cuda">,
    Option<"fusion", "fusion", "bool", "true", "make the fused variants">,
    Option<"deterministic", "deterministic", "bool", "false",
           "a token's result depends neither on the variant nor on the batch">,
    Option<"maxChunk", "max-chunk", "int64_t", "512", "most tokens of a step">,
    Option<"maxBatch", "max-batch", "int64_t", "1", "most sequences of a step">,
    Option<"maxLogitRows", "max-logit-rows", "int64_t", "512", "most logit rows of a step">,
    Option<"maxContext", "max-context", "int64_t", "8192", "most positions of a sequence">];
}

def FormGroups : Pass<"gemma-form-groups", "::mlir::func::FuncOp"> {
  let summary = "Group the nodes of a variant into what one launch will do";
  let description = [{
    Follows the variant's plan: `hoist_rows` puts a norm chain into the projection that reads it,
    `fuse_attention` puts head norms, rope and append into the attention; without a plan every node is
    a group of its own. Inlining all groups gives the input back.
  }];
  let dependentDialects = ["::gemma::ir::GemmaDialect"];
}

//===----------------------------------------------------------------------===//
// lower
//===----------------------------------------------------------------------===//

def PlanStorage : Pass<"gemma-plan-storage", "::mlir::ModuleOp"> {
  let summary = "Choose the layout of every weight, the ring of every cache, and the angle tables";
  let description = [{
    Matrices that a projection reads are packed in panels, of 16 rows for the host and of 8 for tensor cores,
    gate and up panels alternating where their activation is fused; everything else stays row-major. A ring
    holds window + max_chunk - 1 positions, rounded up to pages; for CUDA devices at least as many pages as
    a window may lie in.
  }];
  let dependentDialects = ["::gemma::program::ProgramDialect"];
}

def LowerGroups : Pass<"gemma-lower-groups", "::mlir::ModuleOp"> {
  let summary = "Make a kernel of every group and a launch list of every variant";
  let description = [{
    Equal kernels are made once, whatever the number of layers; a kernel's name is made from its nodes and
    a hash of its body.
  }];
  let dependentDialects = ["::gemma::program::ProgramDialect", "::gemma::kernel::KernelDialect"];
}

def FuseRows : Pass<"gemma-fuse-rows", "::gemma::kernel::FuncOp"> {
  let summary = "Make one kernel.rows of several that pass their rows on";
  let description = [{
    For kernels of GPUs, where `gemma-lower-groups` does the same before it names a kernel.
  }];
}

//===----------------------------------------------------------------------===//
// memory
//===----------------------------------------------------------------------===//

def PlanArena : Pass<"gemma-plan-arena", "::gemma::program::VariantOp"> {
  let summary = "Give every buffer of a variant its place in one arena, by liveness";
  let description = [{
    Two buffers share bytes only if no launch uses both or runs between their first and last uses.
  }];
}

//===----------------------------------------------------------------------===//
// verify
//===----------------------------------------------------------------------===//

def VerifyPhase : Pass<"gemma-verify-phase", "::mlir::ModuleOp"> {
  let summary = "Check what a phase promises and name the operations left over";
  let options = [Option<"phase", "phase", "std::string", "\"\"",
                        "import, optimize, lower or memory">];
}

#endif // GEMMA_PASSES_TD
