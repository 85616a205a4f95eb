#include "codegen/emu/PtxLexer.h"

#include <cctype>
#include <charconv>

namespace gemma::codegen::ptx {

static bool isWordChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

bool Lexer::skipSpace() {
  size_t before = rest.size();
  while (!rest.empty()) {
    if (rest.front() == '\n') {
      ++line;
      rest.remove_prefix(1);
    } else if (std::isspace(static_cast<unsigned char>(rest.front()))) {
      rest.remove_prefix(1);
    } else if (rest.starts_with("//")) {
      size_t end = rest.find('\n');
      rest.remove_prefix(end == rest.npos ? rest.size() : end);
    } else if (rest.starts_with("/*")) {
      size_t end = rest.find("*/", 2);
      std::string_view comment = rest.substr(0, end == rest.npos ? rest.size() : end + 2);
      for (char c : comment)
        line += c == '\n';
      rest.remove_prefix(comment.size());
    } else {
      break;
    }
  }
  return rest.size() != before;
}

Token Lexer::take(Token token, size_t length) {
  token.text = rest.substr(0, length);
  rest.remove_prefix(length);
  return token;
}

Token Lexer::number(Token token) {
  size_t length = 1;
  while (length < rest.size() && isWordChar(rest[length]))
    ++length;
  token = take(token, length);
  std::string_view digits = token.text;
  int base = 10;
  token.kind = Token::Integer;
  auto startsWith = [&](char letter) {
    return digits.size() > 2 && digits[0] == '0' && std::tolower(digits[1]) == letter;
  };
  if (startsWith('f') || startsWith('d')) {
    bool single = startsWith('f');
    token.kind = single ? Token::Float32 : Token::Float64;
    base = 16;
    digits.remove_prefix(2);
    if (digits.size() != (single ? 8u : 16u))
      token.kind = Token::Bad;
  } else if (startsWith('x') || startsWith('b')) {
    base = startsWith('x') ? 16 : 2;
    digits.remove_prefix(2);
  } else if (digits.size() > 1 && digits[0] == '0') {
    base = 8;
  }
  if (token.kind == Token::Integer && (digits.back() == 'U' || digits.back() == 'u'))
    digits.remove_suffix(1);
  auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), token.value, base);
  if (error != std::errc() || end != digits.data() + digits.size())
    token.kind = Token::Bad;
  return token;
}

Token Lexer::next() {
  Token token;
  token.spaceBefore = skipSpace();
  token.line = line;
  if (rest.empty())
    return token;
  char c = rest.front();
  if (std::isdigit(static_cast<unsigned char>(c)))
    return number(token);
  if (isWordChar(c)) {
    size_t length = 1;
    while (length < rest.size() && isWordChar(rest[length]))
      ++length;
    token.kind = Token::Word;
    return take(token, length);
  }
  if (c == '.' && rest.size() > 1 && isWordChar(rest[1])) {
    size_t length = 2;
    while (length < rest.size()) {
      if (isWordChar(rest[length]))
        ++length;
      else if (rest.substr(length).starts_with("::"))
        length += 2;
      else
        break;
    }
    token.kind = Token::Dotted;
    token = take(token, length);
    token.text.remove_prefix(1);
    return token;
  }
  if (c == '"') {
    size_t end = rest.find('"', 1);
    token.kind = end == rest.npos ? Token::Bad : Token::String;
    token = take(token, end == rest.npos ? rest.size() : end + 1);
    if (token.kind == Token::String)
      token.text = token.text.substr(1, token.text.size() - 2);
    return token;
  }
  token.kind = std::string_view("{}[](),;:@!|+-<>=").find(c) == std::string_view::npos
                   ? Token::Bad
                   : Token::Punctuation;
  return take(token, 1);
}

} // namespace gemma::codegen::ptx
