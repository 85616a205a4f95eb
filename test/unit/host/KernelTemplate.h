// Kernels' text from templates: what the tests of rows of codes share.
#pragma once

#include <map>
#include <string>

namespace gemma::codegen::test {

/// `text` with what `names` has for each $ and the letter behind it.
inline std::string fill(const std::string &text, const std::map<char, std::string> &names) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i)
    result += text[i] == '$' ? names.at(text[++i]) : std::string(1, text[i]);
  return result;
}

} // namespace gemma::codegen::test
