// PTX text -> ptx::Module.
#pragma once

#include "codegen/emu/PtxModule.h"
#include "runtime/support/Status.h"

#include <string_view>

namespace gemma::codegen::ptx {

/// Errors name the line and, inside a kernel, the kernel. Whether an instruction exists is not
/// looked at here.
Expected<Module> parse(std::string_view text);

} // namespace gemma::codegen::ptx
