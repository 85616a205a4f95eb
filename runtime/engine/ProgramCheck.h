// Whether the parts of a program fit together: what makes it safe to execute.
#pragma once

#include "runtime/abi/Program.h"
#include "runtime/support/Status.h"

#include <string>

namespace gemma {

/// The ops' domains, which no artifact may exceed.
inline constexpr int64_t maxSupportedContext = 262144;
inline constexpr int64_t maxSupportedBatch = 256;

/// Checks every weight's bytes against its recipe, every cache against the limits, and for each
/// launch: the number of arguments, that each lies inside its object and is aligned, that nothing
/// constant is written, and that a written argument overlaps no other one of the launch. `where`
/// starts each message. Kernels themselves are trusted: they are code.
Status checkProgram(const Program &program, const std::string &where);

} // namespace gemma
