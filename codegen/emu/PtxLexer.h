// The words of PTX text.
#pragma once

#include <cstdint>
#include <string_view>

namespace gemma::codegen::ptx {

struct Token {
  enum Kind {
    End,
    Word,    ///< identifier: letters, digits, _ $ %
    Dotted,  ///< .word with its dot left out; may contain ::
    Integer, ///< `value`
    Float32, ///< `value`: bits
    Float64, ///< `value`: bits
    String,  ///< without the quotes
    Punctuation,
    Bad, ///< a character or number that PTX does not have
  };
  Kind kind = End;
  std::string_view text;
  uint64_t value = 0;
  unsigned line = 0;
  bool spaceBefore = false;

  bool is(char c) const { return kind == Punctuation && text.front() == c; }
};

class Lexer {
public:
  explicit Lexer(std::string_view text) : rest(text) {}
  Token next();

private:
  bool skipSpace();
  Token number(Token token);
  Token take(Token token, size_t length);

  std::string_view rest;
  unsigned line = 1;
};

} // namespace gemma::codegen::ptx
