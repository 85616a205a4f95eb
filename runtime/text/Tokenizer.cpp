#include "runtime/text/Tokenizer.h"

#include "runtime/support/File.h"
#include "runtime/text/Detokenizer.h"
#include "runtime/text/TokenizerTables.h"
#include "runtime/text/Utf8.h"

#include <cassert>
#include <system_error>

namespace gemma {
namespace {

/// Encodes pieces of text that hold no added token.
class WordEncoder {
public:
  WordEncoder(const TokenizerTables &tables, std::vector<int32_t> &ids)
      : tables(tables), ids(ids) {}

  void encode(std::string_view text) {
    while (!text.empty()) {
      utf8::Character character = utf8::firstCharacter(text);
      push(character, text.substr(0, character.length));
      text.remove_prefix(character.length);
    }
    finishWord();
  }

private:
  void push(utf8::Character character, std::string_view bytes) {
    if (character.form == utf8::Form::Valid) {
      uint32_t codePoint = character.codePoint == ' ' ? spaceMarkCodePoint : character.codePoint;
      if (const int32_t *id = tables.characterIds.lookup(codePoint))
        return pushSymbol(*id, codePoint);
    }
    for (char byte : bytes)
      pushSymbol(tables.byteIds[static_cast<uint8_t>(byte)], noCharacter);
  }

  void pushSymbol(int32_t id, uint32_t codePoint) {
    if (!tables.joinable.contains(last, codePoint) || word.size() == BytePairMerger::maxWordSymbols)
      finishWord();
    word.push_back(id);
    last = codePoint;
  }

  void finishWord() {
    if (word.size() == 1)
      ids.push_back(word[0]);
    else if (!word.empty())
      tables.merger.encode(word, ids, workspace);
    word.clear();
  }

  /// Stands for a byte token among characters; joins with nothing.
  static constexpr uint32_t noCharacter = 0xFFFFFFFF - 1;

  const TokenizerTables &tables;
  std::vector<int32_t> &ids;
  std::vector<int32_t> word;
  uint32_t last = noCharacter;
  BytePairMerger::Workspace workspace;
};

} // namespace

Tokenizer::Tokenizer(std::shared_ptr<const TokenizerTables> tables) : tables(std::move(tables)) {}

Expected<Tokenizer> Tokenizer::fromFile(const std::filesystem::path &path) {
  std::error_code error;
  std::filesystem::path file =
      std::filesystem::is_directory(path, error) ? path / "tokenizer.json" : path;
  Expected<std::string> json = readWholeFile(file, uint64_t(1) << 30);
  if (!json)
    return json.status();
  return fromJson(*json, file.string());
}

Expected<Tokenizer> Tokenizer::fromJson(std::string_view json, std::string_view name) {
  auto tables = std::make_shared<TokenizerTables>();
  if (Status status = readTokenizerTables(json, name, *tables); !status)
    return status;
  return Tokenizer(std::move(tables));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<int32_t> ids;
  if (options.addBos)
    ids.push_back(tables->bosId);
  WordEncoder words(*tables, ids);
  size_t start = 0; // of the text that is not yet encoded
  for (size_t position = 0; position < text.size();) {
    if (tables->added.mayStart(static_cast<uint8_t>(text[position]))) {
      if (auto match = tables->added.longestAt(text.substr(position), options.parseSpecial)) {
        words.encode(text.substr(start, position - start));
        ids.push_back(match->id);
        position += match->length;
        start = position;
        continue;
      }
    }
    ++position;
  }
  words.encode(text.substr(start));
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, DecodeOptions options) const {
  Detokenizer detokenizer(*this, options);
  std::string text;
  for (int32_t id : ids)
    text += detokenizer.push(id);
  text += detokenizer.flush();
  return text;
}

int32_t Tokenizer::vocabSize() const { return static_cast<int32_t>(tables->names.size()); }

int32_t Tokenizer::bosId() const { return tables->bosId; }

std::optional<int32_t> Tokenizer::tokenId(std::string_view name) const {
  return tables->ids.find(name, tables->names);
}

std::string_view Tokenizer::tokenName(int32_t id) const {
  assert(contains(id));
  return tables->names[id];
}

std::string_view Tokenizer::pieceBytes(int32_t id) const {
  assert(contains(id));
  return tables->pieces[id];
}

bool Tokenizer::isSpecial(int32_t id) const {
  assert(contains(id));
  return tables->flags[id] & TokenizerTables::Special;
}

bool Tokenizer::isControl(int32_t id) const {
  assert(contains(id));
  return tables->flags[id] & TokenizerTables::Control;
}

bool Tokenizer::isByte(int32_t id) const {
  assert(contains(id));
  return tables->flags[id] & TokenizerTables::Byte;
}

} // namespace gemma
