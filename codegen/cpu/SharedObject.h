// Relocatable objects -> a shared object that stands alone.
#pragma once

#include "runtime/support/Status.h"

#include <string>
#include <vector>

namespace gemma::codegen {

/// Links the bytes of object files, in this order, with ld.lld.
Expected<std::string> linkSharedObject(const std::vector<std::string> &objects);

/// Fails unless the ELF file exports every name of `symbols`, has no undefined symbol, needs no
/// library and runs nothing when it is loaded.
Status checkSharedObject(const std::string &bytes, const std::vector<std::string> &symbols);

} // namespace gemma::codegen
