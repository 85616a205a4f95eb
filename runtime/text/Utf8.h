// UTF-8, strictly: no overlong form, no surrogate, nothing above U+10FFFF (Unicode 16, table 3-7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gemma::utf8 {

/// U+FFFD REPLACEMENT CHARACTER.
inline constexpr std::string_view replacement = "\xEF\xBF\xBD";

enum class Form : uint8_t {
  Valid,     ///< a whole character
  Truncated, ///< the text ends inside what may still become a character
  Invalid,   ///< no character begins like this
};

/// What stands at the start of a text.
struct Character {
  Form form = Form::Invalid;
  uint8_t length = 1;     ///< bytes: of the character, or of the longest start of one (>= 1)
  uint32_t codePoint = 0; ///< only of a valid character
};

/// Reads the first character of a text that is not empty. Where it is ill-formed, `length` is what
/// one U+FFFD stands for: the maximal subpart (Unicode 16, section 3.9), so that all readers of the
/// same bytes print the same number of replacement characters.
inline Character firstCharacter(std::string_view text) {
  auto byteAt = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint8_t lead = byteAt(0);
  if (lead < 0x80)
    return {Form::Valid, 1, lead};
  uint8_t length = 0;
  if (lead >= 0xC2 && lead <= 0xDF)
    length = 2;
  else if (lead >= 0xE0 && lead <= 0xEF)
    length = 3;
  else if (lead >= 0xF0 && lead <= 0xF4)
    length = 4;
  else
    return {Form::Invalid, 1, 0};
  // The second byte alone tells overlong forms, surrogates and what lies above U+10FFFF.
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  uint32_t codePoint = lead & (0x7F >> length);
  for (uint8_t i = 1; i < length; ++i) {
    if (i == text.size())
      return {Form::Truncated, i, 0};
    uint8_t byte = byteAt(i);
    if (byte < low || byte > high)
      return {Form::Invalid, i, 0};
    codePoint = codePoint << 6 | (byte & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {Form::Valid, length, codePoint};
}

} // namespace gemma::utf8
