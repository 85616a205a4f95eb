// Number types as options of the command line name them: integers by their width, "int8"; floats as
// everywhere else.
#pragma once

#include "runtime/support/ScalarType.h"

#include <optional>
#include <string>
#include <string_view>

namespace gemma::driver {

/// Nothing if `text` names none.
inline std::optional<ScalarType> typeOfFlag(std::string_view text) {
  return text == "int4"    ? ScalarType::I4
         : text == "int8"  ? ScalarType::I8
         : text == "int16" ? ScalarType::I16
                           : scalarTypeFromName(text);
}

inline std::string flagOf(ScalarType type) {
  return type == ScalarType::I4    ? "int4"
         : type == ScalarType::I8  ? "int8"
         : type == ScalarType::I16 ? "int16"
                                   : std::string(name(type));
}

} // namespace gemma::driver
