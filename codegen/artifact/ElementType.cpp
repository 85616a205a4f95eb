#include "codegen/artifact/ElementType.h"

namespace gemma::codegen {

std::optional<ScalarType> scalarTypeOf(mlir::Type type) {
  if (type.isF64())
    return ScalarType::F64;
  if (type.isF32())
    return ScalarType::F32;
  if (type.isBF16())
    return ScalarType::BF16;
  if (type.isF16())
    return ScalarType::F16;
  if (type.isInteger(32))
    return ScalarType::I32;
  if (type.isInteger(16))
    return ScalarType::I16;
  if (type.isInteger(8))
    return ScalarType::I8;
  if (type.isInteger(4))
    return ScalarType::I4;
  return std::nullopt;
}

} // namespace gemma::codegen
