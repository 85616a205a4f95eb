#include "codegen/emu/PtxModule.h"

namespace gemma::codegen::ptx {

std::optional<Type> parseType(std::string_view modifier) {
  struct Named {
    std::string_view name;
    Type type;
  };
  static constexpr Named names[] = {
      {"b8", {Type::Bits, 8}},           {"b16", {Type::Bits, 16}},
      {"b32", {Type::Bits, 32}},         {"b64", {Type::Bits, 64}},
      {"b128", {Type::Bits, 128}},       {"u8", {Type::Unsigned, 8}},
      {"u16", {Type::Unsigned, 16}},     {"u32", {Type::Unsigned, 32}},
      {"u64", {Type::Unsigned, 64}},     {"s8", {Type::Signed, 8}},
      {"s16", {Type::Signed, 16}},       {"s32", {Type::Signed, 32}},
      {"s64", {Type::Signed, 64}},       {"f16", {Type::Float, 16}},
      {"f16x2", {Type::Float, 32, 2}},   {"f32", {Type::Float, 32}},
      {"f64", {Type::Float, 64}},        {"bf16", {Type::BFloat, 16}},
      {"bf16x2", {Type::BFloat, 32, 2}}, {"pred", {Type::Predicate, 1}},
  };
  for (const Named &named : names)
    if (named.name == modifier)
      return named.type;
  return std::nullopt;
}

std::string Instruction::text() const {
  std::string result = opcode;
  for (const std::string &modifier : modifiers)
    result += "." + modifier;
  return result;
}

} // namespace gemma::codegen::ptx
