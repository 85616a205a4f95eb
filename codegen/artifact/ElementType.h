// The runtime's name of an element type.
#pragma once

#include "runtime/support/ScalarType.h"

#include "mlir/IR/Types.h"

#include <optional>

namespace gemma::codegen {

/// Nothing for a type that no artifact holds.
std::optional<ScalarType> scalarTypeOf(mlir::Type type);

} // namespace gemma::codegen
