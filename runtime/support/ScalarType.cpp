#include "runtime/support/ScalarType.h"

#include <array>
#include <utility>

namespace gemma {

static constexpr std::array<std::pair<ScalarType, std::string_view>, 11> kNames = {{
    {ScalarType::F64, "f64"},
    {ScalarType::F32, "f32"},
    {ScalarType::BF16, "bf16"},
    {ScalarType::F16, "f16"},
    {ScalarType::I64, "i64"},
    {ScalarType::I32, "i32"},
    {ScalarType::I16, "i16"},
    {ScalarType::I8, "i8"},
    {ScalarType::U8, "u8"},
    {ScalarType::Bool, "bool"},
    {ScalarType::I4, "i4"},
}};

std::string_view name(ScalarType type) { return kNames[static_cast<size_t>(type)].second; }

std::optional<ScalarType> scalarTypeFromName(std::string_view name) {
  for (const auto &[type, spelling] : kNames)
    if (spelling == name)
      return type;
  return std::nullopt;
}

} // namespace gemma
