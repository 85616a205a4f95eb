#include "codegen/cpu/MachineCode.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace gemma::codegen {
namespace {

constexpr const char *tripleName = "x86_64-unknown-linux-gnu";
constexpr const char *cpuName = "x86-64";

std::unique_ptr<llvm::TargetMachine> createMachine(const HostIsa &isa, OptimizationEffort effort,
                                                   std::string &error) {
  static const bool initialised = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    return true;
  }();
  (void)initialised;
  llvm::Triple triple(tripleName);
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  // Products and sums are fused where the kernel says so, nowhere else.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  llvm::CodeGenOptLevel level = effort == OptimizationEffort::Little
                                    ? llvm::CodeGenOptLevel::None
                                    : llvm::CodeGenOptLevel::Aggressive;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, cpuName, isa.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small, level));
}

void setFunctionAttributes(llvm::Module &module, const HostIsa &isa) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr(llvm::Attribute::NoUnwind);
    function.addFnAttr("no-builtins");
    function.addFnAttr("target-cpu", cpuName);
    function.addFnAttr("target-features", isa.features);
  }
}

void optimise(llvm::Module &module, llvm::TargetMachine &machine, OptimizationEffort effort) {
  llvm::PipelineTuningOptions tuning;
  // The kernels are vector code already: vectorising their scalar tails only makes them longer.
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  // Loops are unrolled where registers were counted; more unrolling spills.
  tuning.LoopUnrolling = false;
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
  if (effort == OptimizationEffort::Little) {
    llvm::FunctionPassManager values;
    values.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
    llvm::ModulePassManager all;
    all.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(values)));
    all.run(module, modules);
    return;
  }
  passes
      .buildPerModuleDefaultPipeline(effort == OptimizationEffort::Full
                                         ? llvm::OptimizationLevel::O3
                                         : llvm::OptimizationLevel::O1)
      .run(module, modules);
}

/// The module is copied: code generation changes it.
std::string emit(const llvm::Module &module, llvm::TargetMachine &machine,
                 llvm::CodeGenFileType type) {
  std::unique_ptr<llvm::Module> copy = llvm::CloneModule(module);
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type))
    return {};
  passes.run(*copy);
  return std::string(bytes);
}

} // namespace

Expected<EmittedObject> emitMachineCode(llvm::Module &module, const HostIsa &isa, bool withText,
                                        OptimizationEffort effort) {
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(isa, effort, error);
  if (!machine)
    return internalError("no code generator for " + std::string(tripleName) + ": " + error);
  module.setTargetTriple(llvm::Triple(tripleName));
  module.setDataLayout(machine->createDataLayout());
  setFunctionAttributes(module, isa);
  optimise(module, *machine, effort);

  EmittedObject result;
  result.object = emit(module, *machine, llvm::CodeGenFileType::ObjectFile);
  if (result.object.empty())
    return internalError("the code generator for " + isa.name + " writes no object files");
  if (withText) {
    llvm::raw_string_ostream(result.ir) << module;
    result.assembly = emit(module, *machine, llvm::CodeGenFileType::AssemblyFile);
  }
  return result;
}

} // namespace gemma::codegen
