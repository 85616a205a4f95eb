#include "tools/compiler/DeviceCode.h"

#include "codegen/emu/EmuCodegen.h"
#include "codegen/gpu/PtxEmitter.h"
#include "codegen/gpu/Ptxas.h"
#include "runtime/support/File.h"

namespace gemma::compiler {

static constexpr std::string_view emulated = "emu-", textAlone = "ptx-";

std::string chipOf(const std::string &target) {
  for (std::string_view prefix : {emulated, textAlone})
    if (target.starts_with(prefix))
      return target.substr(prefix.size());
  return target;
}

bool isDeviceTarget(const std::string &target) {
  return codegen::findGpuTarget(chipOf(target)) != nullptr;
}

std::string knownTargets() {
  std::string names = "host";
  for (const char *prefix : {"", "ptx-", "emu-"})
    for (const codegen::GpuTarget &target : codegen::gpuTargets())
      names += std::string(", ") + prefix + target.name;
  return names;
}

static Expected<KernelBinary> emulatorObject(const codegen::PtxKernel &kernel,
                                             const std::string &target) {
  codegen::EmuCodegenOptions options;
  options.nodes = kernel.nodes;
  Expected<codegen::EmuObject> object = codegen::compilePtx(kernel.ptx.at(chipOf(target)), options);
  if (!object)
    return object.error();
  return KernelBinary{
      target + "/" + kernel.name, ObjectKind::Emulator, kernel.name, {}, std::move(object->bytes)};
}

static Expected<KernelBinary> deviceObject(const codegen::PtxKernel &kernel,
                                           const std::string &target) {
  Expected<std::string> ptxas = codegen::findPtxas();
  if (!ptxas)
    return badInput("--target " + target + ": " + ptxas.error().message + "; --target ptx-" +
                    target + " does without");
  Expected<codegen::PtxasReport> made =
      codegen::assemble(*ptxas, kernel.name, kernel.ptx.at(target), target);
  if (!made)
    return made.error();
  return KernelBinary{
      target + "/" + kernel.name, ObjectKind::Cubin, kernel.name, {}, std::move(made->cubin)};
}

Expected<std::vector<KernelBinary>>
compileDeviceKernels(mlir::ModuleOp module, const std::vector<std::string> &targets,
                     const std::string &dumpDir,
                     const std::function<void(const std::string &target)> &started) {
  std::vector<codegen::GpuTarget> chips;
  for (const codegen::GpuTarget &chip : codegen::gpuTargets())
    for (const std::string &target : targets)
      if (chipOf(target) == chip.name) {
        chips.push_back(chip);
        break;
      }
  started("PTX");
  Expected<std::vector<codegen::PtxKernel>> kernels = codegen::emitPtx(module, chips);
  if (!kernels)
    return kernels.error();

  std::vector<KernelBinary> objects;
  auto dump = [&](const KernelBinary &object, const std::string &target,
                  const char *suffix) -> Status {
    if (dumpDir.empty())
      return {};
    return writeFileAtomically(dumpDir + "/" + object.kernel + "." + target + suffix, object.bytes);
  };
  bool havePtx = false;
  for (const std::string &target : targets) {
    started("code for " + target);
    bool isEmulated = target.starts_with(emulated), isText = target.starts_with(textAlone);
    for (const codegen::PtxKernel &kernel : *kernels) {
      const std::string &ptx = kernel.ptx.at(chipOf(target));
      KernelBinary text{"ptx/" + kernel.name, ObjectKind::Ptx, kernel.name, {}, ptx};
      if (Status status = dump(text, target, ".ptx"); !status)
        return status.error();
      if (!isEmulated && !havePtx)
        objects.push_back(text);
      if (isText)
        continue;
      Expected<KernelBinary> object =
          isEmulated ? emulatorObject(kernel, target) : deviceObject(kernel, target);
      if (!object)
        return object.error();
      if (!isEmulated)
        if (Status status = dump(*object, target, ".cubin"); !status)
          return status.error();
      objects.push_back(std::move(*object));
    }
    havePtx |= !isEmulated;
  }
  return objects;
}

} // namespace gemma::compiler
