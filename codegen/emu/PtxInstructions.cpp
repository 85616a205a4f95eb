// The body of a kernel: instructions, labels, braces.
#include "codegen/emu/PtxReader.h"

namespace gemma::codegen::ptx {

Status Reader::body() {
  while (!acceptPunctuation('}')) {
    if (acceptPunctuation('{')) {
      size_t outer = scope;
      scopes.push_back({outer, {}, {}});
      scope = scopes.size() - 1;
      if (++depth > 64)
        return fail("braces nested deeper than 64");
      Status status = body();
      --depth;
      scope = outer;
      if (!status)
        return status;
      continue;
    }
    if (Status status = statement(); !status)
      return status;
  }
  return {};
}

Status Reader::statement() {
  if (acceptPunctuation(';'))
    return {};
  if (token.kind == Token::Dotted)
    return bodyDirective();
  Instruction instruction;
  instruction.line = token.line;
  instruction.source = source;
  if (acceptPunctuation('@')) {
    instruction.guardNegated = acceptPunctuation('!');
    Expected<std::string> name = word("a predicate register");
    if (!name)
      return name.status();
    std::optional<unsigned> guard = findRegister(*name);
    if (!guard || kernel->registers[*guard].cls != Type::Predicate)
      return fail("expected a predicate register, got " + *name);
    instruction.guard = guard;
  }
  Expected<std::string> first = word("an instruction");
  if (!first)
    return first.status();
  if (!instruction.guard && acceptPunctuation(':'))
    return label(*first);
  instruction.opcode = *first;
  while (token.kind == Token::Dotted && !token.spaceBefore) {
    instruction.modifiers.emplace_back(token.text);
    advance();
  }
  if (!token.is(';'))
    do {
      Expected<Operand> read = operand();
      if (!read)
        return read.status();
      if (read->kind == Operand::Symbol &&
          (instruction.opcode == "bra" || instruction.opcode == "brx"))
        labelUses.push_back({kernel->body.size(), instruction.operands.size(), scope});
      instruction.operands.push_back(std::move(*read));
    } while (acceptPunctuation(','));
  if (Status status = expect(';'); !status)
    return status;
  kernel->body.push_back({std::nullopt, std::move(instruction)});
  return {};
}

Status Reader::label(const std::string &name) {
  unsigned index = unsigned(kernel->labels.size());
  if (!scopes[scope].labels.emplace(name, index).second)
    return fail("label " + name + " is defined twice");
  kernel->labels.push_back(name);
  if (token.kind == Token::Dotted && token.text == "branchtargets") {
    advance();
    std::vector<Operand> targets;
    do {
      Operand target;
      target.kind = Operand::Symbol;
      Expected<std::string> read = word("a label");
      if (!read)
        return read.status();
      target.name = *read;
      target.index = unsigned(scope);
      targets.push_back(target);
    } while (acceptPunctuation(','));
    kernel->branchTargets.push_back({index, std::move(targets)});
    return expect(';');
  }
  Statement statement;
  statement.label = index;
  kernel->body.push_back(std::move(statement));
  return {};
}

std::optional<unsigned> Reader::findLabel(const std::string &name, size_t from) const {
  for (size_t s = from;; s = scopes[s].parent) {
    auto found = scopes[s].labels.find(name);
    if (found != scopes[s].labels.end())
      return found->second;
    if (s == 0)
      return std::nullopt;
  }
}

Status Reader::resolve(Operand &operand, size_t from, unsigned line) const {
  std::optional<unsigned> index = findLabel(operand.name, from);
  if (!index)
    return failAt(line, "no label " + operand.name);
  operand.kind = Operand::Label;
  operand.index = *index;
  return {};
}

Status Reader::resolveLabels() {
  for (const LabelUse &use : labelUses) {
    Instruction &instruction = kernel->body[use.statement].instruction;
    if (Status status = resolve(instruction.operands[use.operand], use.scope, instruction.line);
        !status)
      return status;
  }
  for (auto &[label, targets] : kernel->branchTargets)
    for (Operand &target : targets)
      if (Status status = resolve(target, target.index, kernel->line); !status)
        return status;
  return {};
}

} // namespace gemma::codegen::ptx
