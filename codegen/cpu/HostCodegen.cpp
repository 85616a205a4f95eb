#include "codegen/cpu/HostCodegen.h"

#include "codegen/cpu/Lowering.h"
#include "codegen/cpu/ObjectEmitter.h"
#include "codegen/cpu/Passes.h"
#include "codegen/cpu/SharedObject.h"
#include "codegen/support/ErrorCollector.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Threading.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <mutex>

using namespace mlir;

namespace gemma::codegen {
namespace {

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

/// One kernel for one instruction set.
struct KernelTask {
  kernel::FuncOp kernel;
  size_t isa; ///< index into the list of instruction sets
  HostKernel compiled{};
  std::string object{}; ///< relocatable
  Status status{};      ///< without what was diagnosed, if `diagnosed`
  bool diagnosed = false;
};

/// Compiles a kernel in a module of its own.
Status compileKernel(KernelTask &task, const HostIsa &isa, const CodegenOptions &options) {
  MLIRContext *context = task.kernel->getContext();
  std::string name = task.kernel.getSymName().str();
  auto failure = [&] {
    task.diagnosed = true;
    return internalError("kernel " + name + " for " + isa.name);
  };
  OwningOpRef<ModuleOp> module(ModuleOp::create(UnknownLoc::get(context)));
  auto builder = OpBuilder::atBlockEnd(module->getBody());
  auto lowered = lowerKernel(task.kernel, isa, builder);
  if (failed(lowered))
    return failure();
  PassManager passes(context);
  buildHostToLLVMPipeline(passes);
  if (failed(passes.run(*module)))
    return failure();
  auto emitted =
      emitObject(*module, isa, /*withText=*/!options.dumpDir.empty(), options.translated);
  if (!emitted)
    return emitted.status();
  if (!options.dumpDir.empty()) {
    std::string stem = name + "." + isa.name;
    for (auto [suffix, text] :
         {std::pair(".ll", &emitted->ir), {".s", &emitted->assembly}, {".o", &emitted->object}})
      if (Status status = writeText(options.dumpDir, stem + suffix, *text); !status)
        return status;
  }
  task.compiled = {std::move(name), lowered->scratchBytes};
  task.object = std::move(emitted->object);
  return {};
}

/// Compiles all tasks, in parallel if the context is multithreaded. The error is that of the first
/// task in order that fails: tasks begin in order, so those before a failing one are done.
Status compileAll(MLIRContext *context, std::vector<KernelTask> &tasks,
                  const std::vector<HostIsa> &isas, const CodegenOptions &options) {
  ErrorCollector errors(context);
  std::mutex mutex;
  size_t started = 0; // instruction sets
  auto compileOne = [&](size_t index) {
    KernelTask &task = tasks[index];
    if (options.started) {
      std::lock_guard lock(mutex);
      for (; started <= task.isa; ++started)
        options.started(isas[started]);
    }
    task.status = compileKernel(task, isas[task.isa], options);
    return success(task.status.ok());
  };
  // Diagnostics of parallel tasks come in the order of the tasks.
  if (succeeded(failableParallelForEachN(context, 0, tasks.size(), compileOne)))
    return {};
  auto bad = llvm::find_if(tasks, [](const KernelTask &task) { return !task.status.ok(); });
  if (!bad->diagnosed)
    return bad->status;
  return internalError(bad->status.error().message + ": " + errors.message);
}

/// Links what was compiled for one instruction set.
Expected<HostObject> link(const HostIsa &isa, ArrayRef<KernelTask> tasks) {
  HostObject result;
  result.isa = isa.name;
  std::vector<std::string> objects, symbols;
  for (const KernelTask &task : tasks) {
    symbols.push_back(task.compiled.name);
    objects.push_back(task.object);
    result.kernels.push_back(task.compiled);
  }
  auto linked = linkSharedObject(objects);
  if (!linked)
    return internalError("host kernels for " + isa.name + ": " + linked.error().message);
  if (Status status = checkSharedObject(*linked, symbols); !status)
    return internalError("host kernels for " + isa.name + ": " + status.error().message);
  result.bytes = std::move(*linked);
  return result;
}

/// Loads every dialect that compiling needs: parallel tasks must not.
void loadDialects(MLIRContext *context) {
  DialectRegistry registry;
  registerHostCodegenDialects(registry);
  PassManager passes(context);
  buildHostToLLVMPipeline(passes);
  passes.getDependentDialects(registry);
  context->appendDialectRegistry(registry);
  context->loadAllAvailableDialects();
}

} // namespace

void registerHostCodegenDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect,
                  math::MathDialect, memref::MemRefDialect, scf::SCFDialect, ub::UBDialect,
                  vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

Expected<std::vector<HostObject>> compileHostKernels(ModuleOp module,
                                                     const std::vector<HostIsa> &isas,
                                                     const CodegenOptions &options) {
  loadDialects(module.getContext());
  auto kernels = llvm::to_vector(module.getOps<kernel::FuncOp>());
  if (kernels.empty())
    return internalError("there are no kernels to compile");
  std::vector<KernelTask> tasks;
  for (size_t isa = 0; isa < isas.size(); ++isa)
    for (kernel::FuncOp kernel : kernels)
      tasks.push_back({kernel, isa});
  if (Status status = compileAll(module.getContext(), tasks, isas, options); !status)
    return status;
  std::vector<HostObject> objects;
  for (size_t isa = 0; isa < isas.size(); ++isa) {
    auto object = link(isas[isa], ArrayRef(tasks).slice(isa * kernels.size(), kernels.size()));
    if (!object)
      return object.status();
    objects.push_back(std::move(*object));
  }
  return objects;
}

} // namespace gemma::codegen
