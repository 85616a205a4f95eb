#include "codegen/emu/EmuCodegen.h"

#include "codegen/cpu/HostIsa.h"
#include "codegen/cpu/MachineCode.h"
#include "codegen/cpu/SharedObject.h"
#include "codegen/emu/PtxParser.h"
#include "codegen/emu/Translator.h"
#include "runtime/abi/EmuAbi.h"
#include "runtime/support/Hash.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"

#include <nlohmann/json.hpp>

namespace gemma::codegen {
namespace {

using namespace ptx;

/// The variables of the module outside its kernels.
Expected<ModuleLayout> layoutModule(const ptx::Module &ptx, llvm::Module &ir,
                                    nlohmann::json &description) {
  ModuleLayout layout;
  description["globals"] = nlohmann::json::array();
  for (const ptx::Variable &variable : ptx.variables) {
    auto refuse = [&](const std::string &what) {
      return badInput("PTX line " + std::to_string(variable.line) + ": " + what + " " +
                      variable.name);
    };
    if (variable.space == ptx::Variable::Shared && variable.isExtern) {
      layout.externShared[variable.name] = variable.align;
    } else if (variable.space == ptx::Variable::Shared) {
      layout.sharedBytes = llvm::alignTo(layout.sharedBytes, variable.align);
      layout.shared[variable.name] = layout.sharedBytes;
      layout.sharedBytes += variable.bytes;
    } else if (variable.isExtern || variable.space == ptx::Variable::Param ||
               variable.space == ptx::Variable::Local) {
      return refuse("unsupported variable");
    } else {
      std::string bytes = variable.initial;
      bytes.resize(variable.bytes, '\0');
      auto *data = llvm::ConstantDataArray::getString(ir.getContext(), bytes, false);
      bool constant = variable.space == ptx::Variable::Const;
      auto *global = new llvm::GlobalVariable(
          ir, data->getType(), constant, llvm::GlobalValue::ExternalLinkage, data, variable.name);
      // Seen from outside, yet used from inside without a relocation.
      global->setVisibility(llvm::GlobalValue::ProtectedVisibility);
      global->setDSOLocal(true);
      global->setAlignment(llvm::Align(std::max<uint64_t>(variable.align, 16)));
      layout.globals[variable.name] = global;
      description["globals"].push_back(
          {{"name", variable.name}, {"bytes", variable.bytes}, {"constant", constant}});
    }
  }
  return layout;
}

} // namespace

Expected<EmuObject> compilePtx(std::string_view text, const EmuCodegenOptions &options) {
  Expected<ptx::Module> parsed = ptx::parse(text);
  if (!parsed)
    return parsed.status();
  llvm::LLVMContext context;
  llvm::Module ir("ptx", context);
  EmuObject result;
  result.ptxHash = hashHex(text);
  nlohmann::json description = {{"version", GEMMA_EMU_ABI_VERSION},
                                {"target", parsed->target},
                                {"ptxHash", result.ptxHash},
                                {"kernels", nlohmann::json::array()}};
  Expected<ModuleLayout> layout = layoutModule(*parsed, ir, description);
  if (!layout)
    return layout.status();
  std::vector<Site> sites;
  std::vector<std::string> symbols = {GEMMA_EMU_MODULE_SYMBOL};
  for (const ptx::Kernel &kernel : parsed->kernels) {
    size_t firstSite = sites.size();
    Expected<KernelLayout> translated =
        Translator(ir, kernel, *layout, sites, options.provenance).run();
    if (!translated)
      return translated.status();
    nlohmann::json params = nlohmann::json::array();
    for (auto [offset, bytes] : translated->params)
      params.push_back({offset, bytes});
    description["kernels"].push_back({{"name", kernel.name},
                                      {"line", kernel.line},
                                      {"params", params},
                                      {"paramBytes", translated->paramBytes},
                                      {"staticShared", translated->staticShared},
                                      {"maxThreads", kernel.maxThreads.value_or(1024)},
                                      {"firstSite", firstSite},
                                      {"endSite", sites.size()}});
    symbols.push_back(kernel.name);
    result.kernels.push_back(kernel.name);
  }
  nlohmann::json lines = nlohmann::json::array(), sources = nlohmann::json::array();
  for (const Site &site : sites) {
    lines.push_back(site.line);
    sources.push_back(site.source);
  }
  description["lines"] = std::move(lines);
  description["sources"] = std::move(sources);
  description["nodes"] = options.nodes;
  description["ptx"] = text;
  // A text that is not UTF-8 (in a comment) must not stop it.
  std::string json = description.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  auto *data = llvm::ConstantDataArray::getString(context, json, /*AddNull=*/true);
  new llvm::GlobalVariable(ir, data->getType(), true, llvm::GlobalValue::ExternalLinkage, data,
                           GEMMA_EMU_MODULE_SYMBOL);

  std::string broken;
  llvm::raw_string_ostream stream(broken);
  if (llvm::verifyModule(ir, &stream))
    return internalError("the code made from PTX is not valid LLVM IR: " + broken);
  Expected<EmittedObject> object =
      emitMachineCode(ir, *findHostIsa("avx2"), options.keepIr,
                      options.runsOnce ? OptimizationEffort::Little : OptimizationEffort::Modest);
  if (!object)
    return object.status();
  result.ir = std::move(object->ir);
  Expected<std::string> linked = linkSharedObject({object->object});
  if (!linked)
    return linked.status();
  if (Status status = checkSharedObject(*linked, symbols); !status)
    return status;
  result.bytes = std::move(*linked);
  return result;
}

} // namespace gemma::codegen
