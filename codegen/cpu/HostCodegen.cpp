#include "codegen/cpu/HostCodegen.h"

#include "codegen/cpu/Lowering.h"
#include "codegen/cpu/ObjectEmitter.h"
#include "codegen/cpu/Passes.h"
#include "codegen/cpu/SharedObject.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace gemma::codegen {
namespace {

/// Keeps the first error that is reported while it lives.
class ErrorCollector {
public:
  explicit ErrorCollector(MLIRContext *context)
      : handler(context, [this](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
            return failure();
          if (message.empty())
            message = diagnostic.str();
          return success();
        }) {}
  std::string message;

private:
  ScopedDiagnosticHandler handler;
};

Status writeText(const std::string &directory, const std::string &name, const std::string &text) {
  llvm::SmallString<128> path(directory);
  llvm::sys::path::append(path, name);
  std::error_code error = llvm::sys::fs::create_directories(directory);
  if (!error) {
    llvm::raw_fd_ostream stream(path, error);
    stream << text;
    stream.close();
    if (stream.has_error())
      error = stream.error();
    stream.clear_error();
  }
  if (error)
    return badInput("cannot write " + path.str().str() + ": " + error.message());
  return {};
}

/// What one kernel becomes.
struct CompiledKernel {
  HostKernel kernel;
  std::string object; ///< relocatable
};

/// Compiles a kernel in a module of its own.
Expected<CompiledKernel> compileKernel(kernel::FuncOp kernel, const HostIsa &isa,
                                       const std::string &dumpDir) {
  MLIRContext *context = kernel->getContext();
  ErrorCollector errors(context);
  std::string name = kernel.getSymName().str();
  auto failure = [&] {
    return internalError("kernel " + name + " for " + isa.name + ": " + errors.message);
  };
  OwningOpRef<ModuleOp> module(ModuleOp::create(UnknownLoc::get(context)));
  auto builder = OpBuilder::atBlockEnd(module->getBody());
  auto lowered = lowerKernel(kernel, isa, builder);
  if (failed(lowered))
    return failure();
  PassManager passes(context);
  buildHostToLLVMPipeline(passes);
  if (failed(passes.run(*module)))
    return failure();
  auto emitted = emitObject(*module, isa, /*withText=*/!dumpDir.empty());
  if (!emitted)
    return emitted.status();
  if (!dumpDir.empty()) {
    std::string stem = name + "." + isa.name;
    for (auto [suffix, text] :
         {std::pair(".ll", &emitted->ir), {".s", &emitted->assembly}, {".o", &emitted->object}})
      if (Status status = writeText(dumpDir, stem + suffix, *text); !status)
        return status;
  }
  return CompiledKernel{{std::move(name), lowered->scratchBytes}, std::move(emitted->object)};
}

} // namespace

void registerHostCodegenDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect,
                  math::MathDialect, memref::MemRefDialect, scf::SCFDialect, ub::UBDialect,
                  vector::VectorDialect>();
}

Expected<HostObject> compileHostKernels(ModuleOp module, const HostIsa &isa,
                                        const CodegenOptions &options) {
  DialectRegistry registry;
  registerHostCodegenDialects(registry);
  module.getContext()->appendDialectRegistry(registry);
  module.getContext()->loadAllAvailableDialects();

  auto kernels = llvm::to_vector(module.getOps<kernel::FuncOp>());
  if (kernels.empty())
    return internalError("there are no kernels to compile for " + isa.name);

  HostObject result;
  result.isa = isa.name;
  std::vector<std::string> objects, symbols;
  for (kernel::FuncOp kernel : kernels) {
    auto compiled = compileKernel(kernel, isa, options.dumpDir);
    if (!compiled)
      return compiled.status();
    symbols.push_back(compiled->kernel.name);
    objects.push_back(std::move(compiled->object));
    result.kernels.push_back(std::move(compiled->kernel));
  }
  auto linked = linkSharedObject(objects);
  if (!linked)
    return internalError("host kernels for " + isa.name + ": " + linked.error().message);
  if (Status status = checkSharedObject(*linked, symbols); !status)
    return internalError("host kernels for " + isa.name + ": " + status.error().message);
  result.bytes = std::move(*linked);
  return result;
}

} // namespace gemma::codegen
