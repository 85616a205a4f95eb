// gemma-opt: runs passes and pipelines on .mlir files.
#include "codegen/cpu/Passes.h"
#include "codegen/gpu/Passes.h"
#include "import/ImportPass.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "passes/verify/VerifyNumerics.h"
#include "tools/dialects/Register.h"

#include "mlir/InitAllPasses.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

static llvm::cl::opt<bool> verifyNumerics(
    "verify-numerics",
    llvm::cl::desc("Run the interpreter before and after every pass on random weights, and fail "
                   "the pass that changes what a step computes"));
static llvm::cl::opt<uint64_t> numericsSeed("verify-numerics-seed",
                                            llvm::cl::desc("Seed of --verify-numerics"),
                                            llvm::cl::init(1));
static llvm::cl::list<std::string>
    numericsBounds("verify-numerics-bound", llvm::cl::value_desc("PASS=BOUND"),
                   llvm::cl::desc("Let a pass that changes the arithmetic move outputs by "
                                  "max|d|/max|ref| <= BOUND"));

/// MlirOptMain with the checks around every pass.
static mlir::LogicalResult optWithNumerics(llvm::StringRef inputFile, llvm::StringRef outputFile,
                                           mlir::DialectRegistry &registry) {
  gemma::passes::NumericsOptions options;
  options.seed = numericsSeed;
  for (llvm::StringRef text : numericsBounds) {
    auto [pass, bound] = text.split('=');
    if (double value; pass.empty() || bound.getAsDouble(value) || !(value >= 0)) {
      llvm::errs() << "--verify-numerics-bound: expected PASS=BOUND, got " << text << "\n";
      return mlir::failure();
    } else {
      options.bounds[pass.str()] = value;
    }
  }
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> input = mlir::openInputFile(inputFile, &message);
  std::unique_ptr<llvm::ToolOutputFile> output =
      input ? mlir::openOutputFile(outputFile, &message) : nullptr;
  if (!output) {
    llvm::errs() << message << "\n";
    return mlir::failure();
  }
  auto given = mlir::MlirOptMainConfig::createFromCLOptions();
  auto config = given;
  config.setPassPipelineSetupFn([&](mlir::PassManager &pm) {
    if (mlir::failed(given.setupPassPipeline(pm)))
      return mlir::failure();
    gemma::passes::verifyNumerics(pm, options);
    return mlir::success();
  });
  if (mlir::failed(mlir::MlirOptMain(output->os(), std::move(input), registry, config)))
    return mlir::failure();
  output->keep();
  return mlir::success();
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  gemma::registerDialects(registry);
  mlir::registerAllPasses();
  gemma::registerImportPass();
  gemma::codegen::registerHostCodegenPasses();
  gemma::codegen::registerGpuCodegenPasses();
  gemma::passes::registerGemmaPasses();
  gemma::passes::registerPipelines();
  gemma::passes::registerTestBreakStepPass();
  auto [inputFile, outputFile] = mlir::registerAndParseCLIOptions(
      argc, argv, "passes and pipelines of the Gemma compiler\n", registry);
  return mlir::asMainReturnCode(
      verifyNumerics ? optWithNumerics(inputFile, outputFile, registry)
                     : mlir::MlirOptMain(argc, argv, inputFile, outputFile, registry));
}
