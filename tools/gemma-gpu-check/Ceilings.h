// What a device does at best, to measure kernels by.
#pragma once

#include "runtime/engine/Artifact.h"
#include "runtime/support/Status.h"

#include <functional>
#include <string>

namespace gemma::check {

/// Times writing memory, and launches that do nothing (of a kernel of the artifact, at sizes of
/// zero) one by one and as a graph. `print` is told a JSON object's text each.
Status timeCeilings(const Artifact &artifact, int ordinal, int64_t launches,
                    const std::function<void(const std::string &)> &print);

} // namespace gemma::check
