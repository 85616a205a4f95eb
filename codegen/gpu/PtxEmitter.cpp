#include "codegen/gpu/PtxEmitter.h"

#include "codegen/gpu/Lowering.h"
#include "codegen/gpu/Passes.h"
#include "codegen/support/ErrorCollector.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace mlir;

namespace gemma::codegen {
namespace {

constexpr const char *tripleName = "nvptx64-nvidia-cuda";
/// As LLVM spells it; the first that knows all our instructions, and drivers from CUDA 12.0 on take
/// it.
constexpr const char *ptxVersion = "+ptx80";

std::unique_ptr<llvm::TargetMachine> createMachine(const GpuTarget &target, std::string &error) {
  static const bool initialised = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)initialised;
  llvm::Triple triple(tripleName);
  const llvm::Target *found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found)
    return nullptr;
  llvm::TargetOptions options;
  // Products and sums are fused where the kernel says so, nowhere else.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(
      found->createTargetMachine(triple, target.written, ptxVersion, options, std::nullopt,
                                 std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

/// A matrix product needs all lanes of its warp, which LLVM 22 does not say of its intrinsics: it
/// could move one into a branch that few lanes take.
void keepProductsTogether(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction))
        if (llvm::Function *callee = call->getCalledFunction())
          if (callee->getName().starts_with("llvm.nvvm.mma."))
            call->setConvergent();
}

void optimise(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  // Loops are unrolled where registers were counted; more unrolling spills.
  tuning.LoopUnrolling = false;
  tuning.LoopVectorization = false;
  llvm::PassBuilder passes(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager callGraph;
  llvm::ModuleAnalysisManager modules;
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(callGraph);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, callGraph, modules);
  passes.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

/// The module is copied: code generation changes it.
Expected<std::string> emitText(const llvm::Module &module, const GpuTarget &target) {
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(target, error);
  if (!machine)
    return internalError("no code generator for " + std::string(tripleName) + ": " + error);
  std::unique_ptr<llvm::Module> copy = llvm::CloneModule(module);
  copy->setTargetTriple(llvm::Triple(tripleName));
  copy->setDataLayout(machine->createDataLayout());
  keepProductsTogether(*copy);
  optimise(*copy, *machine);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return internalError("the code generator for " + target.name + " writes no PTX");
  passes.run(*copy);
  return std::string(text);
}

/// The kernel in the LLVM dialect, in a module of its own.
Expected<OwningOpRef<ModuleOp>> lowerToLLVM(kernel::FuncOp kernel,
                                            std::vector<std::string> &nodes) {
  MLIRContext *context = kernel.getContext();
  ErrorCollector errors(context);
  OwningOpRef<ModuleOp> result(ModuleOp::create(UnknownLoc::get(context)));
  auto builder = OpBuilder::atBlockEnd(result->getBody());
  if (failed(cuda::lowerKernel(kernel, builder, &nodes)))
    return internalError("kernel " + kernel.getSymName().str() + " for GPUs: " + errors.message);
  PassManager passes(context);
  buildGpuToLLVMPipeline(passes);
  if (failed(passes.run(*result)))
    return internalError("kernel " + kernel.getSymName().str() + " for GPUs: " + errors.message);
  return result;
}

} // namespace

void registerGpuCodegenDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect, gpu::GPUDialect, LLVM::LLVMDialect,
                  NVVM::NVVMDialect, scf::SCFDialect, ub::UBDialect, vector::VectorDialect>();
}

Expected<std::vector<PtxKernel>> emitPtx(ModuleOp module, const std::vector<GpuTarget> &targets) {
  MLIRContext &context = *module.getContext();
  DialectRegistry registry;
  registerGpuCodegenDialects(registry);
  registerBuiltinDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();

  std::vector<PtxKernel> result;
  for (kernel::FuncOp kernel : module.getOps<kernel::FuncOp>()) {
    kernel::LaunchAttr launch = kernel.getLaunchAttr();
    if (!launch)
      continue;
    PtxKernel emitted;
    auto lowered = lowerToLLVM(kernel, emitted.nodes);
    if (!lowered)
      return lowered.status();
    llvm::LLVMContext llvmContext;
    auto gpuModule = *(*lowered)->getOps<gpu::GPUModuleOp>().begin();
    std::unique_ptr<llvm::Module> ir =
        translateModuleToLLVMIR(gpuModule, llvmContext, kernel.getSymName());
    if (!ir)
      return internalError("cannot translate kernel " + kernel.getSymName().str() + " to LLVM IR");
    emitted.name = kernel.getSymName().str();
    emitted.threads = launch.getThreads();
    emitted.sharedBytes = launch.getShared();
    for (const GpuTarget &target : targets) {
      auto text = emitText(*ir, target);
      if (!text)
        return text.status();
      emitted.ptx[target.name] = std::move(*text);
    }
    result.push_back(std::move(emitted));
  }
  return result;
}

} // namespace gemma::codegen
