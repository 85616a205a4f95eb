// Element types of tensors in files, weights, buffers and caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gemma {

/// I4 is a storage type of packed weights alone: two lie in a byte.
enum class ScalarType : uint8_t { F64, F32, BF16, F16, I64, I32, I16, I8, U8, Bool, I4 };

/// Bytes of one element; 0 for I4, of which none lies in bytes of its own.
constexpr size_t byteWidth(ScalarType type) {
  switch (type) {
  case ScalarType::F64:
  case ScalarType::I64:
    return 8;
  case ScalarType::F32:
  case ScalarType::I32:
    return 4;
  case ScalarType::BF16:
  case ScalarType::F16:
  case ScalarType::I16:
    return 2;
  case ScalarType::I8:
  case ScalarType::U8:
  case ScalarType::Bool:
    return 1;
  case ScalarType::I4:
    return 0;
  }
  return 0;
}

constexpr bool isFloat(ScalarType type) {
  return type == ScalarType::F64 || type == ScalarType::F32 || type == ScalarType::BF16 ||
         type == ScalarType::F16;
}

/// Integers that weights are quantised to: signed, with scales by groups (WeightRecipe::group).
constexpr bool isQuantized(ScalarType type) {
  return type == ScalarType::I8 || type == ScalarType::I4;
}

/// MLIR's spelling: "f64", "f32", "bf16", "f16", "i64", ..., "u8", "bool", "i4".
std::string_view name(ScalarType type);
/// The inverse of name().
std::optional<ScalarType> scalarTypeFromName(std::string_view name);

} // namespace gemma
