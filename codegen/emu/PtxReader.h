// Reads PTX text, as far as kernels of this project can contain it:
//
//   module    = { directive | variable | kernel }
//   variable  = [.visible|.extern|...] .space [.align n] .type name [ "[n]" ] [ = { numbers } ] ;
//   kernel    = .entry name ( params ) { .maxntid ... } "{" body "}"
//   body      = { .reg | variable | label: | "{" body "}" | [@[!]p] opcode{.modifier} operands ; }
//
// Registers and labels are local to the innermost braces that declare them.
#pragma once

#include "codegen/emu/PtxLexer.h"
#include "codegen/emu/PtxModule.h"
#include "runtime/support/Status.h"

#include <map>

namespace gemma::codegen::ptx {

class Reader {
public:
  explicit Reader(std::string_view text) : lexer(text) { advance(); }

  Expected<Module> run();

private:
  struct Scope {
    size_t parent = 0;
    std::map<std::string, unsigned, std::less<>> registers;
    std::map<std::string, unsigned, std::less<>> labels;
  };
  struct LabelUse {
    size_t statement, operand, scope;
  };

  // Tokens and messages.
  void advance() { token = lexer.next(); }
  Error fail(const std::string &message) const { return failAt(token.line, message); }
  Error failAt(unsigned line, const std::string &message) const;
  Error unexpected(const std::string &expected) const;
  bool acceptPunctuation(char c);
  Status expect(char c);
  Expected<std::string> word(const std::string &what);
  Expected<uint64_t> integer(const std::string &what);

  // Modules and kernels.
  Status topLevel();
  Status header(const std::string &name);
  Status skipBraces();
  Status entry();
  Status entryBody();

  // Directives.
  /// From the state space on; eats the semicolon, except after a parameter.
  Expected<Variable> variable(bool isExtern);
  Status initializer(Type type, std::string &bytes);
  Status entryDirectives();
  Status bodyDirective();
  Status registers();

  // Instructions and labels.
  Status body();
  Status statement();
  Status label(const std::string &name);
  std::optional<unsigned> findLabel(const std::string &name, size_t from) const;
  Status resolve(Operand &operand, size_t from, unsigned line) const;
  Status resolveLabels();

  // Operands.
  Expected<Operand> operand();
  Expected<Operand> single();
  /// [ + n ] [ - n ] [ + -n ]
  Status offset(uint64_t &bits);
  std::optional<unsigned> findRegister(std::string_view name) const;

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

} // namespace gemma::codegen::ptx
