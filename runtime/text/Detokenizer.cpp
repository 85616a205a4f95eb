#include "runtime/text/Detokenizer.h"

#include "runtime/text/Utf8.h"

namespace gemma {

Detokenizer::Detokenizer(Tokenizer tokenizer, DecodeOptions options)
    : tokenizer(std::move(tokenizer)), options(options) {}

std::string Detokenizer::push(int32_t id) {
  std::string text;
  if (!tokenizer.contains(id) || (options.skipSpecial && tokenizer.isSpecial(id)))
    return text;
  if (!tokenizer.isByte(id)) {
    text = flush();
    text += tokenizer.pieceBytes(id);
    return text;
  }
  pending += tokenizer.pieceBytes(id);
  while (!pending.empty()) {
    utf8::Character character = utf8::firstCharacter(pending);
    if (character.form == utf8::Form::Truncated)
      break;
    if (character.form == utf8::Form::Valid)
      text.append(pending, 0, character.length);
    else
      text += utf8::replacement;
    pending.erase(0, character.length);
  }
  return text;
}

std::string Detokenizer::flush() {
  if (pending.empty())
    return {};
  pending.clear();
  return std::string(utf8::replacement);
}

} // namespace gemma
