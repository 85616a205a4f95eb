#include "runtime/abi/Program.h"

namespace gemma {

bool SizeExpr::wellFormed() const {
  size_t depth = 0;
  for (const Term &term : terms) {
    switch (term.op) {
    case Op::Size:
      if (term.value < 0 || term.value >= int64_t(StepSizes{}.size()))
        return false;
      [[fallthrough]];
    case Op::Constant:
      ++depth;
      break;
    case Op::Add:
    case Op::Mul:
    case Op::FloorDiv:
    case Op::CeilDiv:
    case Op::Mod:
      if (depth < 2)
        return false;
      --depth;
      break;
    default:
      return false;
    }
  }
  return depth == 1;
}

static std::optional<int64_t> apply(SizeExpr::Op op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
  case SizeExpr::Op::Add:
    return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  case SizeExpr::Op::Mul:
    return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  case SizeExpr::Op::FloorDiv:
  case SizeExpr::Op::CeilDiv:
  case SizeExpr::Op::Mod: {
    if (b <= 0)
      return std::nullopt;
    int64_t quotient = a / b, rest = a % b;
    if (rest < 0) { // C++ rounds to zero
      rest += b;
      --quotient;
    }
    if (op == SizeExpr::Op::Mod)
      return rest;
    return op == SizeExpr::Op::CeilDiv && rest != 0 ? quotient + 1 : quotient;
  }
  default:
    return std::nullopt;
  }
}

std::optional<int64_t> SizeExpr::evaluate(const StepSizes &sizes) const {
  if (!wellFormed())
    return std::nullopt;
  std::vector<int64_t> stack;
  stack.reserve(terms.size());
  for (const Term &term : terms) {
    if (term.op == Op::Size) {
      stack.push_back(sizes[size_t(term.value)]);
      continue;
    }
    if (term.op == Op::Constant) {
      stack.push_back(term.value);
      continue;
    }
    int64_t right = stack.back();
    stack.pop_back();
    std::optional<int64_t> result = apply(term.op, stack.back(), right);
    if (!result)
      return std::nullopt;
    stack.back() = *result;
  }
  return stack.back();
}

bool SizeCondition::holds(const StepSizes &sizes) const {
  std::optional<int64_t> value = expr.evaluate(sizes);
  return value && (equality ? *value == 0 : *value >= 0);
}

} // namespace gemma
