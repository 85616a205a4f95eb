// An artifact for people and for scripts: what gemma-compile --inspect prints.
#pragma once

#include "runtime/engine/Artifact.h"

#include <nlohmann/json.hpp>

#include <string>

namespace gemma {

/// Programs, launches, buffers, weights, objects and their bytes; ends in a line break.
std::string inspectText(const Artifact &artifact);

/// The same with every value: {"identity", "modelName", ..., "objects", "memory", "program"}.
nlohmann::json inspectJson(const Artifact &artifact);

} // namespace gemma
