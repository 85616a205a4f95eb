// Reads a tokenizer.json:
//
//   { "added_tokens":  [{"id", "content", "special", "single_word", "lstrip", "rstrip",
//                        "normalized"}, ...],
//     "normalizer":    {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
//     "pre_tokenizer": null or {"type": "Split", "pattern": {"String": " "}, "invert": false, ...},
//     "post_processor": null or {"type": "TemplateProcessing", "single": [<bos>, A], ...},
//     "decoder":       {"type": "Sequence", "decoders": [Replace U+2581 by a space, ByteFallback,
//                        Fuse]},
//     "model":         {"type": "BPE", "byte_fallback": true, "vocab": {name: id},
//                       "merges": [[left, right], ...] or ["left right", ...]} }
//
// The pre-tokenizer has nothing to do: it splits at spaces, which the normalizer has replaced. The
// post-processor says that <bos> comes first, which EncodeOptions::addBos does on demand.
#include "runtime/support/Json.h"
#include "runtime/text/TokenizerDocument.h"
#include "runtime/text/TokenizerTables.h"
#include "runtime/text/Utf8.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <optional>
#include <utility>

namespace gemma {
namespace {

using nlohmann::json;

class Reader {
public:
  Reader(std::string_view file, TokenizerTables &tables) : file(file), tables(tables) {}

  Status read(const TokenizerDocument &document) {
    const json &root = document.rest;
    if (!root.is_object())
      return wrong("the file", "an object", describe(root));
    const json &model = member(root, "model");
    if (!model.is_object())
      return wrong("model", "an object", describe(model));
    for (auto step : {&Reader::checkPipeline, &Reader::checkDecoder})
      if (Status status = (this->*step)(root); !status)
        return status;
    if (Status status = checkModel(model); !status)
      return status;
    if (Status status = readNames(document); !status)
      return status;
    if (Status status = readBytesAndCharacters(); !status)
      return status;
    if (!member(model, "merges").is_array())
      return wrong("model.merges", "an array", describe(member(model, "merges")));
    return readMerges(document.mergeParts);
  }

private:
  static const json &member(const json &object, const char *key) {
    static const json absent;
    if (!object.is_object())
      return absent;
    auto found = object.find(key);
    return found == object.end() ? absent : *found;
  }

  Error wrong(const std::string &where, const std::string &expected, const std::string &got) const {
    return badInput(std::string(file) + ": " + where + ": expected " + expected + ", got " + got);
  }

  /// `object[key]` is `expected`, or (if that is allowed) absent or null.
  Status expectValue(const json &object, const std::string &where, const char *key,
                     const json &expected, bool orNull = false) const {
    const json &value = member(object, key);
    if (value == expected || (orNull && value.is_null()))
      return {};
    return wrong(where + "." + key, describe(expected) + (orNull ? " or null" : ""),
                 describe(value));
  }

  /// `replace` is a Replace of one string by another.
  Status expectReplace(const json &replace, const std::string &where, std::string_view from,
                       std::string_view to) const {
    if (Status status = expectValue(replace, where, "type", "Replace"); !status)
      return status;
    if (Status status = expectValue(member(replace, "pattern"), where + ".pattern", "String", from);
        !status)
      return status;
    return expectValue(replace, where, "content", to);
  }

  Status checkPipeline(const json &root) const {
    if (Status status = expectReplace(member(root, "normalizer"), "normalizer", " ", spaceMark);
        !status)
      return status;
    if (const json &split = member(root, "pre_tokenizer"); !split.is_null()) {
      if (Status status = expectValue(split, "pre_tokenizer", "type", "Split"); !status)
        return status;
      if (Status status =
              expectValue(member(split, "pattern"), "pre_tokenizer.pattern", "String", " ");
          !status)
        return status;
      if (Status status = expectValue(split, "pre_tokenizer", "invert", false, true); !status)
        return status;
    }
    if (const json &post = member(root, "post_processor"); !post.is_null()) {
      if (Status status = expectValue(post, "post_processor", "type", "TemplateProcessing");
          !status)
        return status;
      const json &single = member(post, "single");
      for (size_t i = 0; single.is_array() && i < single.size(); ++i) {
        std::string where = "post_processor.single[" + std::to_string(i) + "]";
        const json &special = member(single[i], "SpecialToken");
        if (i == 0 && special.is_object()) {
          if (Status status = expectValue(special, where + ".SpecialToken", "id", "<bos>"); !status)
            return status;
        } else if (!member(single[i], "Sequence").is_object() || i > 1) {
          return wrong(where, "only <bos> before the text and nothing after it", single[i].dump());
        }
      }
    }
    return {};
  }

  Status checkDecoder(const json &root) const {
    const json &decoder = member(root, "decoder");
    if (Status status = expectValue(decoder, "decoder", "type", "Sequence"); !status)
      return status;
    const json &steps = member(decoder, "decoders");
    if (!steps.is_array() || steps.size() != 3)
      return wrong("decoder.decoders", "[Replace, ByteFallback, Fuse]",
                   steps.is_array() ? std::to_string(steps.size()) + " steps" : describe(steps));
    if (Status status = expectReplace(steps[0], "decoder.decoders[0]", spaceMark, " "); !status)
      return status;
    if (Status status = expectValue(steps[1], "decoder.decoders[1]", "type", "ByteFallback");
        !status)
      return status;
    return expectValue(steps[2], "decoder.decoders[2]", "type", "Fuse");
  }

  Status checkModel(const json &model) const {
    // unk_token and fuse_unk do not matter: with all byte tokens there, nothing is unknown.
    if (Status status = expectValue(model, "model", "type", "BPE"); !status)
      return status;
    if (Status status = expectValue(model, "model", "byte_fallback", true); !status)
      return status;
    if (Status status = expectValue(model, "model", "dropout", 0.0, true); !status)
      return status;
    if (Status status = expectValue(model, "model", "continuing_subword_prefix", "", true); !status)
      return status;
    if (Status status = expectValue(model, "model", "end_of_word_suffix", "", true); !status)
      return status;
    return expectValue(model, "model", "ignore_merges", false, true);
  }

  Status outOfRange(const std::string &where, const std::string &got) const {
    return wrong(where, "an id from 0 to " + std::to_string(named.size() - 1), got);
  }

  /// Gives an id its name. Ids are below the number of names in the file, so none is left free
  /// unless another has two.
  Status setName(const char *where, uint64_t id, std::string_view name) {
    if (id >= named.size())
      return outOfRange(where + (": " + quoteForMessage(name)), std::to_string(id));
    if (named[id])
      return badInput(std::string(file) + ": " + where + ": id " + std::to_string(id) +
                      " has two names, " + quoteForMessage(tables.names[id]) + " and " +
                      quoteForMessage(name));
    named[id] = true;
    tables.names[id] = name;
    if (!tables.ids.insert(static_cast<int32_t>(id), tables.names))
      return badInput(std::string(file) + ": " + where + ": " + quoteForMessage(name) +
                      " is listed twice");
    return {};
  }

  Status readNames(const TokenizerDocument &document) {
    const json &vocab = member(member(document.rest, "model"), "vocab");
    if (!vocab.is_object() || document.vocabNames.size() == 0)
      return wrong("model.vocab", "an object with entries", describe(vocab));
    const json &addedTokens = member(document.rest, "added_tokens");
    if (!addedTokens.is_null() && !addedTokens.is_array())
      return wrong("added_tokens", "an array", describe(addedTokens));
    size_t limit = document.vocabNames.size() + addedTokens.size();
    tables.names.resize(limit);
    tables.flags.resize(limit);
    tables.ids.reset(limit);
    named.resize(limit);
    for (size_t i = 0; i < document.vocabNames.size(); ++i)
      if (Status status = setName("model.vocab", document.vocabIds[i], document.vocabNames[i]);
          !status)
        return status;
    for (size_t i = 0; i < addedTokens.size(); ++i)
      if (Status status = readAddedToken(addedTokens[i], i); !status)
        return status;

    size_t count = limit; // names given twice leave the end free
    while (count > 0 && !named[count - 1])
      --count;
    for (size_t id = 0; id < count; ++id)
      if (!named[id])
        return badInput(std::string(file) + ": id " + std::to_string(id) +
                        " has no token: expected all ids up to " + std::to_string(count - 1));
    tables.names.resize(count);
    tables.flags.resize(count);
    std::optional<int32_t> bos = tables.ids.find("<bos>", tables.names);
    if (!bos)
      return badInput(std::string(file) + ": no token <bos>");
    tables.bosId = *bos;
    return {};
  }

  Status readAddedToken(const json &token, size_t index) {
    std::string where = "added_tokens[" + std::to_string(index) + "]";
    const json &content = member(token, "content");
    if (!content.is_string() || content.get_ref<const std::string &>().empty())
      return wrong(where + ".content", "a string that is not empty", describe(content));
    const auto &name = content.get_ref<const std::string &>();
    if (name.size() > AddedTokens::maxNameBytes)
      return wrong(where + ".content",
                   "at most " + std::to_string(AddedTokens::maxNameBytes) + " bytes",
                   std::to_string(name.size()));
    const json &id = member(token, "id");
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= named.size())
      return outOfRange(where + ".id", describe(id));
    for (const char *key : {"single_word", "lstrip", "rstrip", "normalized"})
      if (Status status = expectValue(token, where, key, false, true); !status)
        return status;
    const json &special = member(token, "special");
    if (!special.is_boolean())
      return wrong(where + ".special", "true or false", describe(special));
    // Most are in the vocabulary too.
    auto number = id.get<int32_t>();
    if (!named[number] || tables.names[number] != name)
      if (Status status = setName(where.c_str(), id.get<uint64_t>(), name); !status)
        return status;
    bool isSpecial = special.get<bool>();
    bool isControl = isSpecial || (name.size() > 3 && name.front() == '<' && name.back() == '>' &&
                                   (name[1] == '|' || name[name.size() - 2] == '|'));
    if (!tables.added.insert(name, number, isControl))
      return badInput(std::string(file) + ": " + where + ": " + quoteForMessage(name) +
                      " is listed twice");
    tables.flags[number] |=
        (isSpecial ? TokenizerTables::Special : 0) | (isControl ? TokenizerTables::Control : 0);
    return {};
  }

  Status readBytesAndCharacters() {
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", byte);
      std::optional<int32_t> id = tables.ids.find(name, tables.names);
      if (!id)
        return badInput(std::string(file) + ": model.vocab: no byte token " + name);
      tables.byteIds[byte] = *id;
      tables.flags[*id] |= TokenizerTables::Byte;
    }
    size_t characters = 0;
    auto isCharacter = [](const std::string &name) {
      return !name.empty() && utf8::firstCharacter(name).length == name.size();
    };
    tables.pieces.reserve(tables.names.size());
    for (const std::string &name : tables.names) {
      characters += isCharacter(name);
      std::string piece;
      for (std::string_view rest = name; !rest.empty();) {
        size_t mark = rest.find(spaceMark);
        piece += rest.substr(0, mark);
        if (mark == rest.npos)
          break;
        piece += ' ';
        rest.remove_prefix(mark + spaceMark.size());
      }
      tables.pieces.push_back(std::move(piece));
    }
    for (int byte = 0; byte < 256; ++byte)
      tables.pieces[tables.byteIds[byte]] = std::string(1, static_cast<char>(byte));
    tables.characterIds.reset(characters);
    for (size_t id = 0; id < tables.names.size(); ++id)
      if (isCharacter(tables.names[id]))
        tables.characterIds.insert(utf8::firstCharacter(tables.names[id]).codePoint,
                                   static_cast<int32_t>(id));
    return {};
  }

  Status readMerges(const StringList &mergeParts) {
    size_t count = mergeParts.size() / 2;
    tables.merger.reset(count);
    tables.joinable.reset(count);
    std::string joined;
    for (size_t rank = 0; rank < count; ++rank) {
      std::string_view left = mergeParts[2 * rank], right = mergeParts[2 * rank + 1];
      joined.assign(left).append(right);
      int32_t ids[3];
      int32_t *next = ids;
      for (std::string_view name : {left, right, std::string_view(joined)}) {
        std::optional<int32_t> id = tables.ids.find(name, tables.names);
        if (!id)
          return wrong("model.merges[" + std::to_string(rank) + "]", "tokens of the vocabulary",
                       quoteForMessage(name));
        *next++ = *id;
      }
      tables.merger.insert(ids[0], ids[1], static_cast<uint32_t>(rank), ids[2]);
      // A byte token is not spelled as the text that it stands for.
      if ((tables.flags[ids[0]] | tables.flags[ids[1]]) & TokenizerTables::Byte)
        tables.joinable.setAll();
      tables.joinable.insert(lastCodePoint(left), utf8::firstCharacter(right).codePoint);
    }
    return {};
  }

  static uint32_t lastCodePoint(std::string_view text) {
    size_t start = text.size() - 1;
    while (start > 0 && (text[start] & 0xC0) == 0x80)
      --start;
    return utf8::firstCharacter(text.substr(start)).codePoint;
  }

  std::string_view file;
  TokenizerTables &tables;
  std::vector<bool> named;
};

} // namespace

Status readTokenizerTables(std::string_view text, std::string_view name, TokenizerTables &tables) {
  Expected<TokenizerDocument> document = readTokenizerDocument(text, name);
  if (!document)
    return document.status();
  return Reader(name, tables).read(*document);
}

} // namespace gemma
