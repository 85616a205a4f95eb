// Code for CUDA devices and for their emulator, from a module's GPU kernels.
#pragma once

#include "runtime/engine/Artifact.h"
#include "runtime/support/Status.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <string>
#include <vector>

namespace gemma::compiler {

/// What --target can name besides "host": "sm_80", "sm_90", ...; with "ptx-" in front, the PTX for
/// it, which the driver compiles when it is loaded; with "emu-", the emulated device, which
/// executes the same PTX on the host.
bool isDeviceTarget(const std::string &target);
/// The architecture behind a target: "sm_80" of "emu-sm_80".
std::string chipOf(const std::string &target);
/// All of them, "host" first, with commas between.
std::string knownTargets();

/// One object a target and kernel: a cubin of what ptxas makes of the PTX, or the emulator's object
/// of it. The PTX for the first target that is not emulated is kept too, for devices newer than the
/// compiler. A cubin needs CUDA's ptxas; one that spills is refused. With `dumpDir`,
/// KERNEL.TARGET.{ptx,cubin} are written there. `started` is told each target.
Expected<std::vector<KernelBinary>>
compileDeviceKernels(mlir::ModuleOp module, const std::vector<std::string> &targets,
                     const std::string &dumpDir,
                     const std::function<void(const std::string &target)> &started);

} // namespace gemma::compiler
