// PTX text -> a host object that the emulated device executes.
//
//   Expected<EmuObject> object = codegen::compilePtx(ptxText);
//   Expected<emu::Module> module = emu::Module::load(object->bytes, "my kernels");
//   emu::launch(...)                              // runtime/device/emu/Launch.h
#pragma once

#include "runtime/support/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace gemma::codegen {

struct EmuObject {
  std::string bytes; ///< an ELF shared object that stands alone, see runtime/abi/EmuAbi.h
  std::vector<std::string> kernels;
  std::string ptxHash; ///< of the text it was made from
  std::string ir;      ///< optimised LLVM IR, if asked for
};

struct EmuCodegenOptions {
  bool keepIr = false;
  bool runsOnce = false; ///< compile fast rather than to fast code
  /// What the instructions after `.loc 1 i 0` compute is nodes[i - 1] (PtxKernel::nodes); for the
  /// reports of the emulated device.
  std::vector<std::string> nodes;
  /// Floats are not computed: each is a hash of the operations and inputs that it is made of, so
  /// that equal results prove equal orders of operations (docs/decisions/0014). Operations whose
  /// result cannot be one are errors.
  bool provenance = false;
};

/// Compiles every kernel of a PTX module. An instruction, modifier or directive that the emulated
/// device does not know is an error that names the kernel, the line and the text of the
/// instruction. The object needs a processor with AVX2 and FMA.
Expected<EmuObject> compilePtx(std::string_view ptx, const EmuCodegenOptions &options = {});

} // namespace gemma::codegen
