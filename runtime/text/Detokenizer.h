// Token ids to text while they come in: never half a character.
#pragma once

#include "runtime/text/Tokenizer.h"

#include <cstdint>
#include <string>

namespace gemma {

/// Turns ids into text, one at a time. The texts of all push() calls and of flush(), one after
/// another, are Tokenizer::decode() of all the ids.
///
/// Byte tokens wait until their character is whole. Bytes that cannot become one are U+FFFD, one
/// for each maximal subpart (Unicode 16, section 3.9). The `tokenizers` library replaces every byte
/// of an unbroken run of byte tokens if any of it is ill-formed, which no streaming reader can do;
/// on well-formed runs, all that encoding makes from text, the two agree.
class Detokenizer {
public:
  explicit Detokenizer(Tokenizer tokenizer, DecodeOptions options = {});

  /// The text that `id` completes; may be empty. An id outside the vocabulary, or a special one
  /// that is to be skipped, changes nothing.
  std::string push(int32_t id);

  /// Ends the text: U+FFFD if it ends inside a character, else nothing. Then a new text may begin.
  std::string flush();

private:
  Tokenizer tokenizer;
  DecodeOptions options;
  std::string pending; ///< the start of a character, 0 to 3 bytes
};

} // namespace gemma
