// PTX text, as far as it is read here:
//
//   module    = { directive | variable | kernel }
//   variable  = [.visible|.extern|...] .space [.align n] .type name [ "[n]" ] [ = { numbers } ] ;
//   kernel    = .entry name ( params ) { .maxntid ... } "{" body "}"
//   body      = { .reg | variable | label: | "{" body "}" | [@[!]p] opcode{.modifier} operands ; }
//
// Registers and labels are local to the innermost braces that declare them.
#include "codegen/emu/PtxParser.h"
#include "codegen/emu/PtxLexer.h"

#include <map>

namespace gemma::codegen::ptx {
namespace {

class Parser {
public:
  explicit Parser(std::string_view text) : lexer(text) { advance(); }

  Expected<Module> run() {
    while (token.kind != Token::End)
      if (Status status = topLevel(); !status)
        return status;
    return std::move(module);
  }

private:
  struct Scope {
    size_t parent = 0;
    std::map<std::string, unsigned, std::less<>> registers;
    std::map<std::string, unsigned, std::less<>> labels;
  };
  struct LabelUse {
    size_t statement, operand, scope;
  };

  void advance() { token = lexer.next(); }

  Error fail(const std::string &message) const { return failAt(token.line, message); }
  Error failAt(unsigned line, const std::string &message) const {
    return badInput("PTX line " + std::to_string(line) +
                    (kernel ? ", kernel " + kernel->name : std::string()) + ": " + message);
  }
  Error unexpected(const std::string &expected) const {
    std::string got = token.kind == Token::End ? "the end" : "'" + std::string(token.text) + "'";
    return fail("expected " + expected + ", got " + got);
  }

  bool acceptPunctuation(char c) {
    if (!token.is(c))
      return false;
    advance();
    return true;
  }
  Status expect(char c) {
    if (!acceptPunctuation(c))
      return unexpected(std::string("'") + c + "'");
    return {};
  }
  Expected<std::string> word(const std::string &what) {
    if (token.kind != Token::Word)
      return unexpected(what);
    std::string result(token.text);
    advance();
    return result;
  }
  Expected<uint64_t> integer(const std::string &what) {
    if (token.kind != Token::Integer)
      return unexpected(what);
    uint64_t value = token.value;
    advance();
    return value;
  }

  Status topLevel() {
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

  Status header(const std::string &name) {
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

  Status skipBraces() {
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

  /// From the state space on; eats the semicolon, except after a parameter.
  Expected<Variable> variable(bool isExtern) {
    Variable result;
    result.isExtern = isExtern;
    result.line = token.line;
    static const std::map<std::string_view, Variable::Space> spaces = {
        {"param", Variable::Param},
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
          return fail("expected an alignment that is a power of two, got " +
                      std::to_string(*value));
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

  Status initializer(Type type, std::string &bytes) {
    if (acceptPunctuation('{')) {
      do {
        if (Status status = initializer(type, bytes); !status)
          return status;
      } while (acceptPunctuation(','));
      return expect('}');
    }
    bool negative = acceptPunctuation('-');
    if (token.kind != Token::Integer && token.kind != Token::Float32 &&
        token.kind != Token::Float64)
      return unexpected("a number");
    uint64_t value = negative ? -token.value : token.value;
    for (unsigned i = 0; i < type.bits / 8; ++i)
      bytes.push_back(char(value >> (8 * i)));
    advance();
    return {};
  }

  Status entry() {
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

  Status entryBody() {
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
    if (Status status = expect('{'); !status)
      return status;
    return body();
  }

  Status body() {
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

  Status statement() {
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

  Status label(const std::string &name) {
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

  Status bodyDirective() {
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
        if (token.kind == Token::Word && token.text != "function_name" &&
            token.text != "inlined_at")
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

  Status registers() {
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

  std::optional<unsigned> findRegister(std::string_view name) const {
    for (size_t s = scope;; s = scopes[s].parent) {
      auto found = scopes[s].registers.find(name);
      if (found != scopes[s].registers.end())
        return found->second;
      if (s == 0)
        return std::nullopt;
    }
  }

  Expected<Operand> operand() {
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

  Expected<Operand> single() {
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

  /// [ + n ] [ - n ] [ + -n ]
  Status offset(uint64_t &bits) {
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

  std::optional<unsigned> findLabel(const std::string &name, size_t from) const {
    for (size_t s = from;; s = scopes[s].parent) {
      auto found = scopes[s].labels.find(name);
      if (found != scopes[s].labels.end())
        return found->second;
      if (s == 0)
        return std::nullopt;
    }
  }

  Status resolve(Operand &operand, size_t from, unsigned line) const {
    std::optional<unsigned> index = findLabel(operand.name, from);
    if (!index)
      return failAt(line, "no label " + operand.name);
    operand.kind = Operand::Label;
    operand.index = *index;
    return {};
  }

  Status resolveLabels() {
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

  Lexer lexer;
  Token token;
  Module module;
  Kernel *kernel = nullptr;
  std::vector<Scope> scopes;
  size_t scope = 0;
  size_t depth = 0;
  unsigned source = 0; ///< of the last .loc
  std::vector<LabelUse> labelUses;
};

} // namespace

Expected<Module> parse(std::string_view text) { return Parser(text).run(); }

} // namespace gemma::codegen::ptx
