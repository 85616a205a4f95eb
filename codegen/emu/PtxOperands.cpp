// Operands of instructions.
#include "codegen/emu/PtxReader.h"

namespace gemma::codegen::ptx {

std::optional<unsigned> Reader::findRegister(std::string_view name) const {
  for (size_t s = scope;; s = scopes[s].parent) {
    auto found = scopes[s].registers.find(name);
    if (found != scopes[s].registers.end())
      return found->second;
    if (s == 0)
      return std::nullopt;
  }
}

Expected<Operand> Reader::operand() {
  Expected<Operand> first = single();
  if (!first || !acceptPunctuation('|'))
    return first;
  Expected<Operand> second = single();
  if (!second)
    return second;
  Operand pair;
  pair.kind = Operand::Pair;
  pair.elements = {std::move(*first), std::move(*second)};
  return pair;
}

Expected<Operand> Reader::single() {
  Operand result;
  if (acceptPunctuation('{')) {
    result.kind = Operand::Vector;
    do {
      Expected<Operand> element = single();
      if (!element)
        return element;
      if (element->kind == Operand::Vector)
        return fail("a vector in a vector");
      result.elements.push_back(std::move(*element));
    } while (acceptPunctuation(','));
    if (Status status = expect('}'); !status)
      return status;
    return result;
  }
  if (acceptPunctuation('[')) {
    result.kind = Operand::Address;
    Expected<Operand> base = single();
    if (!base)
      return base;
    if (base->kind == Operand::Vector || base->kind == Operand::Address)
      return fail("expected a register, symbol or number as address");
    if (base->kind == Operand::Symbol)
      std::swap(result.bits, base->bits);
    result.elements.push_back(std::move(*base));
    if (Status status = offset(result.bits); !status)
      return status;
    if (Status status = expect(']'); !status)
      return status;
    return result;
  }
  if (acceptPunctuation('!')) {
    Expected<Operand> inner = single();
    if (inner)
      inner->negated = !inner->negated;
    return inner;
  }
  bool negative = acceptPunctuation('-');
  if (token.kind == Token::Integer || token.kind == Token::Float32 ||
      token.kind == Token::Float64) {
    result.kind = token.kind == Token::Integer   ? Operand::Integer
                  : token.kind == Token::Float32 ? Operand::Float32
                                                 : Operand::Float64;
    result.bits = negative ? -token.value : token.value;
    if (negative && result.kind != Operand::Integer)
      return unexpected("an integer");
    advance();
    return result;
  }
  if (negative || token.kind != Token::Word)
    return unexpected("an operand");
  std::string name(token.text);
  advance();
  if (name == "_")
    return result;
  if (name[0] == '%' && token.kind == Token::Dotted && !token.spaceBefore) {
    result.name = name + "." + std::string(token.text);
    result.kind = Operand::Special;
    advance();
    return result;
  }
  if (std::optional<unsigned> reg = findRegister(name)) {
    result.kind = Operand::Register;
    result.index = *reg;
    return result;
  }
  result.kind = name[0] == '%' || name == "WARP_SZ" ? Operand::Special : Operand::Symbol;
  result.name = std::move(name);
  if (result.kind == Operand::Symbol)
    if (Status status = offset(result.bits); !status)
      return status;
  return result;
}

Status Reader::offset(uint64_t &bits) {
  if (!token.is('+') && !token.is('-'))
    return {};
  bool negative = acceptPunctuation('-');
  if (!negative) {
    advance();
    negative = acceptPunctuation('-');
  }
  Expected<uint64_t> value = integer("an offset");
  if (!value)
    return value.status();
  bits += negative ? -*value : *value;
  return {};
}

} // namespace gemma::codegen::ptx
