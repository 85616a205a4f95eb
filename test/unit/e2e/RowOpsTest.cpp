// The spec page's ops that no Gemma 4 node uses compile as row kernels too: a made-up model of them
// against the interpreter.
#include "CompiledModel.h"

#include "codegen/artifact/BuildProgram.h"
#include "codegen/cpu/HostCodegen.h"
#include "dialect/kernel/Kernel.h"
#include "passes/Pipelines.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace gemma;
using namespace gemma::test;

namespace {

// Weights of the checkpoint test/data/models/bad/base: hidden 16, MLP 24, vocabulary 32.
constexpr const char *kModule = R"mlir(
module attributes {gemma.numerics = #gemma.numerics<weights = f64, activations = f64, accumulate = f64, residual = f64, kv = f64, logits = f64>} {
program.weight @table : tensor<32x16xf64> from ["embed_tokens.weight"]
program.weight @norm : tensor<16xf64> from ["norm.weight"]
program.weight @gate_up : tensor<48x16xf64> from ["layers.0.mlp.gate_proj.weight", "layers.0.mlp.up_proj.weight"]
program.weight @down : tensor<16x24xf64> from ["layers.0.mlp.down_proj.weight"]
func.func @step(%tokens: tensor<?xi32>, %batch: !gemma.batch, %rows: tensor<?xi32>) -> tensor<?x32xf64> {
  %zero = arith.constant 0 : index
  %x = gemma.embed %tokens, @table {mul = 3.0 : f64} : tensor<?xi32> -> tensor<?x16xf64>
  %T = tensor.dim %x, %zero : tensor<?x16xf64>
  %a = gemma.rmsnorm_offset %x, @norm {eps = 1.0e-6 : f64} : tensor<?x16xf64>
  %b = gemma.rmsnorm_gated %x, %a, @norm {eps = 1.0e-6 : f64} : tensor<?x16xf64>
  %c = gemma.l2norm %b {eps = 1.0e-6 : f64} : tensor<?x16xf64>
  %d = gemma.sigmoid_gate %c, %x : tensor<?x16xf64>
  %gu = gemma.linear %d, @gate_up : tensor<?x16xf64> -> tensor<?x48xf64>
  %act = gemma.silu_mul %gu : tensor<?x48xf64> -> tensor<?x24xf64>
  %e = gemma.linear %act, @down : tensor<?x24xf64> -> tensor<?x16xf64>
  %f = gemma.residual %x, %e {r = 0.5 : f64} : tensor<?x16xf64>
  %h = tensor.expand_shape %f [[0], [1, 2]] output_shape [%T, 2, 8] : tensor<?x16xf64> into tensor<?x2x8xf64>
  %r = gemma.rope_std %h, %batch {theta = 1.0e4 : f64, rot = 6 : i64} : tensor<?x2x8xf64>
  %g = tensor.collapse_shape %r [[0], [1, 2]] : tensor<?x2x8xf64> into tensor<?x16xf64>
  %s = gemma.select_rows %g, %rows : tensor<?x16xf64>, tensor<?xi32> -> tensor<?x16xf64>
  %l = gemma.lm_head %s, @table {mul = 0.25 : f64} : tensor<?x16xf64> -> tensor<?x32xf64>
  return %l : tensor<?x32xf64>
}
}
)mlir";

/// Every phase and one host object, as an artifact.
Artifact compileText(mlir::MLIRContext &context, const ModelConfig &config, bool fusion) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kModule, &context);
  EXPECT_TRUE(module);
  passes::PhaseOptions options;
  options.fusion = fusion;
  options.maxContext = 64;
  options.maxChunk = options.maxLogitRows = 16;
  mlir::PassManager pm(&context);
  passes::buildImportPhase(pm, options);
  passes::buildOptimizePhase(pm, options);
  passes::buildLowerPhase(pm, options);
  passes::buildMemoryPhase(pm, options);
  EXPECT_TRUE(mlir::succeeded(pm.run(*module)));

  Artifact artifact;
  Program &program = artifact.program;
  program.config = config;
  program.limits = {64, 1, 16, 16};
  program.weightType = program.activationType = program.cacheType = ScalarType::F64;
  program.fused = fusion;
  EXPECT_OK(codegen::buildProgram(*module, program));
  const codegen::HostIsa *isa = codegen::findHostIsa(runnableIsas().front());
  auto objects = codegen::compileHostKernels(*module, {*isa});
  EXPECT_TRUE(objects) << objects.error().message;
  artifact.objects.push_back(
      {isa->name, ObjectKind::Host, "", isa->needs, std::move(objects->front().bytes)});
  return artifact;
}

TEST(CompiledRowOps, EqualTheInterpreter) {
  auto checkpoint = Checkpoint::open(sourcePath("test/data/models/bad/base"));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  mlir::DialectRegistry registry;
  registerImportDialects(registry);
  registry.insert<kernel::KernelDialect>();
  codegen::registerHostCodegenDialects(registry);
  mlir::MLIRContext context(registry);
  context.loadAllAvailableDialects();

  auto module = mlir::parseSourceString<mlir::ModuleOp>(kModule, &context);
  ASSERT_TRUE(module);
  reference::CheckpointWeights weights(*checkpoint);
  Interpreter interpreter(*module, weights);
  Ids tokens = {2, 31, 7, 7, 0, 19, 4, 11, 23};
  Tensor expected = logitsOf(interpreter, {{0}, {0, 9}, {9}}, tokens);

  for (bool fusion : {false, true}) {
    auto model = Model::load(compileText(context, checkpoint->config(), fusion), *checkpoint, {});
    ASSERT_TRUE(model) << model.error().message;
    CompiledModel compiled;
    compiled.model = *model;
    compiled.renew();
    auto sequence = compiled.sequence();
    EXPECT_LE(distance(compiled.prefill(*sequence, tokens), expected), 3e-15)
        << (fusion ? "fused" : "unfused");
  }
}

} // namespace
