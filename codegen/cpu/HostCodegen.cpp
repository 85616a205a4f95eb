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

/// Lowers the kernels to the LLVM dialect in a module of their own.
Expected<OwningOpRef<ModuleOp>> lowerToLLVM(ArrayRef<kernel::FuncOp> kernels, const HostIsa &isa,
                                            std::vector<HostKernel> &lowered) {
  MLIRContext *context = kernels.front()->getContext();
  ErrorCollector errors(context);
  OwningOpRef<ModuleOp> result(ModuleOp::create(UnknownLoc::get(context)));
  auto builder = OpBuilder::atBlockEnd(result->getBody());
  for (kernel::FuncOp kernel : kernels) {
    auto function = lowerKernel(kernel, isa, builder);
    if (failed(function))
      return internalError("kernel " + kernel.getSymName().str() + " for " + isa.name + ": " +
                           errors.message);
    lowered.push_back({kernel.getSymName().str(), function->scratchBytes});
  }
  PassManager passes(context);
  buildHostToLLVMPipeline(passes);
  if (failed(passes.run(*result)))
    return internalError("host kernels for " + isa.name + ": " + errors.message);
  return result;
}

/// Compiles each kernel by itself, so that its text forms can be read one by one.
Status dumpKernels(ArrayRef<kernel::FuncOp> kernels, const HostIsa &isa, const std::string &dir) {
  for (kernel::FuncOp kernel : kernels) {
    std::vector<HostKernel> lowered;
    auto module = lowerToLLVM(kernel, isa, lowered);
    if (!module)
      return module.status();
    auto emitted = emitObject(module->get(), isa, /*withText=*/true);
    if (!emitted)
      return emitted.status();
    std::string stem = kernel.getSymName().str() + "." + isa.name;
    for (auto [suffix, text] :
         {std::pair(".ll", &emitted->ir), {".s", &emitted->assembly}, {".o", &emitted->object}})
      if (Status status = writeText(dir, stem + suffix, *text); !status)
        return status;
  }
  return {};
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
  if (!options.dumpDir.empty())
    if (Status status = dumpKernels(kernels, isa, options.dumpDir); !status)
      return status;

  HostObject result;
  result.isa = isa.name;
  auto lowered = lowerToLLVM(kernels, isa, result.kernels);
  if (!lowered)
    return lowered.status();
  auto emitted = emitObject(lowered->get(), isa, /*withText=*/false);
  if (!emitted)
    return emitted.status();
  auto linked = linkSharedObject(emitted->object);
  if (!linked)
    return internalError("host kernels for " + isa.name + ": " + linked.error().message);
  std::vector<std::string> symbols;
  for (const HostKernel &kernel : result.kernels)
    symbols.push_back(kernel.name);
  if (Status status = checkSharedObject(*linked, symbols); !status)
    return internalError("host kernels for " + isa.name + ": " + status.error().message);
  result.bytes = std::move(*linked);
  return result;
}

} // namespace gemma::codegen
