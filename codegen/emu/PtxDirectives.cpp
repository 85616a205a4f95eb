// Directives of modules, kernels and their bodies: variables, registers, places in the source.
#include "codegen/emu/PtxReader.h"

namespace gemma::codegen::ptx {

Expected<Variable> Reader::variable(bool isExtern) {
  Variable result;
  result.isExtern = isExtern;
  result.line = token.line;
  static const std::map<std::string_view, Variable::Space> spaces = {{"param", Variable::Param},
                                                                     {"shared", Variable::Shared},
                                                                     {"local", Variable::Local},
                                                                     {"const", Variable::Const},
                                                                     {"global", Variable::Global}};
  auto space = token.kind == Token::Dotted ? spaces.find(token.text) : spaces.end();
  if (space == spaces.end())
    return unexpected("a state space");
  result.space = space->second;
  advance();
  std::optional<Type> type;
  bool pointer = false;
  uint64_t align = 0;
  while (token.kind == Token::Dotted) {
    std::string_view text = token.text;
    if (text == "align") {
      advance();
      Expected<uint64_t> value = integer("an alignment");
      if (!value)
        return value.status();
      if (*value == 0 || *value > (1u << 20) || (*value & (*value - 1)))
        return fail("expected an alignment that is a power of two, got " + std::to_string(*value));
      // After .ptr it is the alignment of what the pointer points to.
      if (!pointer)
        align = *value;
      continue;
    }
    if (text == "ptr")
      pointer = true;
    else if (std::optional<Type> parsed = parseType(text))
      type = parsed;
    else if (!pointer || spaces.find(text) == spaces.end())
      return unexpected("a type");
    advance();
  }
  if (!type)
    return unexpected("a type");
  Expected<std::string> name = word("a name");
  if (!name)
    return name.status();
  result.name = *name;
  uint64_t element = std::max(1u, type->bits / 8);
  result.align = std::max<uint64_t>(align, element);
  uint64_t count = 1;
  while (acceptPunctuation('[')) {
    if (token.is(']')) {
      count = 0;
    } else {
      Expected<uint64_t> extent = integer("an extent");
      if (!extent)
        return extent.status();
      if (*extent > (uint64_t(1) << 32) || count * *extent > (uint64_t(1) << 32))
        return fail("an array of more than 2^32 elements");
      count *= *extent;
    }
    if (Status status = expect(']'); !status)
      return status;
  }
  result.bytes = count * element;
  if (acceptPunctuation('='))
    if (Status status = initializer(*type, result.initial); !status)
      return status;
  if (result.initial.size() > result.bytes)
    return fail("more initial values than " + result.name + " has elements");
  if (result.space != Variable::Param)
    if (Status status = expect(';'); !status)
      return status;
  return result;
}

Status Reader::initializer(Type type, std::string &bytes) {
  if (acceptPunctuation('{')) {
    do {
      if (Status status = initializer(type, bytes); !status)
        return status;
    } while (acceptPunctuation(','));
    return expect('}');
  }
  bool negative = acceptPunctuation('-');
  if (token.kind != Token::Integer && token.kind != Token::Float32 && token.kind != Token::Float64)
    return unexpected("a number");
  uint64_t value = negative ? -token.value : token.value;
  for (unsigned i = 0; i < type.bits / 8; ++i)
    bytes.push_back(char(value >> (8 * i)));
  advance();
  return {};
}

Status Reader::entryDirectives() {
  while (token.kind == Token::Dotted) {
    std::string directive(token.text);
    advance();
    uint64_t product = 1;
    while (token.kind == Token::Integer || token.kind == Token::String || token.is(',')) {
      if (token.kind == Token::Integer)
        product *= token.value;
      advance();
    }
    if (directive == "maxntid" || directive == "reqntid")
      kernel->maxThreads = product;
    else if (directive != "minnctapersm" && directive != "maxnreg" && directive != "pragma")
      return fail("unknown kernel directive ." + directive);
    acceptPunctuation(';');
  }
  return {};
}

Status Reader::bodyDirective() {
  std::string directive(token.text);
  if (directive == "reg")
    return registers();
  if (directive == "loc") {
    // .loc file line column [, function_name label, inlined_at file line column]
    advance();
    if (Expected<uint64_t> file = integer("a file's number"); !file)
      return file.status();
    Expected<uint64_t> line = integer("a line");
    if (!line)
      return line.status();
    source = unsigned(*line);
    while (token.kind == Token::Integer || token.is(',') || token.kind == Token::Word) {
      if (token.kind == Token::Word && token.text != "function_name" && token.text != "inlined_at")
        break;
      bool named = token.text == "function_name";
      advance();
      if (named)
        advance();
    }
    return {};
  }
  if (directive == "pragma") {
    advance();
    advance();
    return expect(';');
  }
  Expected<Variable> read = variable(false);
  if (!read)
    return read.status();
  kernel->variables.push_back(std::move(*read));
  return {};
}

Status Reader::registers() {
  advance();
  std::optional<Type> type =
      token.kind == Token::Dotted ? parseType(token.text) : std::optional<Type>();
  if (!type)
    return unexpected("a register type");
  advance();
  do {
    Expected<std::string> name = word("a register's name");
    if (!name)
      return name.status();
    if (!acceptPunctuation('<')) {
      scopes[scope].registers[*name] = unsigned(kernel->registers.size());
      kernel->registers.push_back(*type);
      continue;
    }
    Expected<uint64_t> count = integer("a number of registers");
    if (!count)
      return count.status();
    if (*count > 1000000)
      return fail("more than a million registers");
    if (Status status = expect('>'); !status)
      return status;
    for (uint64_t i = 0; i < *count; ++i) {
      scopes[scope].registers[*name + std::to_string(i)] = unsigned(kernel->registers.size());
      kernel->registers.push_back(*type);
    }
  } while (acceptPunctuation(','));
  return expect(';');
}

} // namespace gemma::codegen::ptx
