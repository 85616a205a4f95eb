// Whole modules and kernels; what is inside of them is read in PtxDirectives.cpp,
// PtxInstructions.cpp and PtxOperands.cpp.
#include "codegen/emu/PtxParser.h"
#include "codegen/emu/PtxReader.h"

namespace gemma::codegen::ptx {

Expected<Module> Reader::run() {
  while (token.kind != Token::End)
    if (Status status = topLevel(); !status)
      return status;
  return std::move(module);
}

Status Reader::topLevel() {
  if (token.kind != Token::Dotted)
    return unexpected("a directive");
  std::string name(token.text);
  if (name == "version" || name == "target" || name == "address_size" || name == "file")
    return header(name);
  if (name == "section")
    return skipBraces();
  bool isExtern = false;
  while (token.kind == Token::Dotted && (token.text == "visible" || token.text == "extern" ||
                                         token.text == "weak" || token.text == "common")) {
    isExtern |= token.text == "extern";
    advance();
  }
  if (token.kind == Token::Dotted && token.text == "entry")
    return entry();
  if (token.kind == Token::Dotted && token.text == "func")
    return fail("functions are not supported: only kernels (.entry)");
  Expected<Variable> read = variable(isExtern);
  if (!read)
    return read.status();
  module.variables.push_back(std::move(*read));
  return {};
}

Status Reader::header(const std::string &name) {
  advance();
  if (name == "version") {
    // "8.6" comes as the number 8 and the dotted word 6.
    if (Expected<uint64_t> major = integer("a version"); !major)
      return major.status();
    advance();
    return {};
  }
  if (name == "target") {
    Expected<std::string> target = word("a target");
    if (!target)
      return target.status();
    module.target = *target;
    while (acceptPunctuation(','))
      advance();
    return {};
  }
  while (token.kind == Token::Integer || token.kind == Token::String || token.is(','))
    advance();
  return {};
}

Status Reader::skipBraces() {
  while (token.kind != Token::End && !token.is('{'))
    advance();
  size_t depth = 0;
  do {
    depth += token.is('{');
    depth -= token.is('}');
    if (token.kind == Token::End)
      return unexpected("'}'");
    advance();
  } while (depth);
  return {};
}

Status Reader::entry() {
  advance();
  Expected<std::string> name = word("a kernel's name");
  if (!name)
    return name.status();
  Kernel fresh;
  fresh.name = *name;
  fresh.line = token.line;
  kernel = &fresh;
  scopes.assign(1, {});
  scope = 0;
  labelUses.clear();
  source = 0;
  Status status = entryBody();
  if (status)
    status = resolveLabels();
  kernel = nullptr;
  if (status)
    module.kernels.push_back(std::move(fresh));
  return status;
}

Status Reader::entryBody() {
  if (acceptPunctuation('(')) {
    while (!token.is(')')) {
      Expected<Variable> param = variable(false);
      if (!param)
        return param.status();
      kernel->params.push_back(std::move(*param));
      if (!acceptPunctuation(','))
        break;
    }
    if (Status status = expect(')'); !status)
      return status;
  }
  if (Status status = entryDirectives(); !status)
    return status;
  if (Status status = expect('{'); !status)
    return status;
  return body();
}

Error Reader::failAt(unsigned line, const std::string &message) const {
  return badInput("PTX line " + std::to_string(line) +
                  (kernel ? ", kernel " + kernel->name : std::string()) + ": " + message);
}

Error Reader::unexpected(const std::string &expected) const {
  std::string got = token.kind == Token::End ? "the end" : "'" + std::string(token.text) + "'";
  return fail("expected " + expected + ", got " + got);
}

bool Reader::acceptPunctuation(char c) {
  if (!token.is(c))
    return false;
  advance();
  return true;
}

Status Reader::expect(char c) {
  if (!acceptPunctuation(c))
    return unexpected(std::string("'") + c + "'");
  return {};
}

Expected<std::string> Reader::word(const std::string &what) {
  if (token.kind != Token::Word)
    return unexpected(what);
  std::string result(token.text);
  advance();
  return result;
}

Expected<uint64_t> Reader::integer(const std::string &what) {
  if (token.kind != Token::Integer)
    return unexpected(what);
  uint64_t value = token.value;
  advance();
  return value;
}

Expected<Module> parse(std::string_view text) { return Reader(text).run(); }

} // namespace gemma::codegen::ptx
