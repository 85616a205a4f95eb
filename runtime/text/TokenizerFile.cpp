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
#include "runtime/text/TokenizerTables.h"
#include "runtime/text/Utf8.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <utility>

namespace gemma {
namespace {

using nlohmann::json;

class Reader {
public:
  Reader(std::string_view file, TokenizerTables &tables) : file(file), tables(tables) {}

  Status read(const json &root) {
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
    if (Status status = readNames(root, model); !status)
      return status;
    if (Status status = readBytesAndCharacters(); !status)
      return status;
    return readMerges(member(model, "merges"));
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

  /// An id must be below the number of names in the file: then the ids 0 .. n-1 are the only ones.
  static bool isId(const json &value, size_t limit) {
    return value.is_number_unsigned() && value.get<uint64_t>() < limit;
  }

  Status setName(const std::string &where, size_t id, const std::string &name) {
    if (named[id]) {
      if (tables.names[id] == name)
        return {};
      return badInput(std::string(file) + ": " + where + ": id " + std::to_string(id) +
                      " has two names, " + quoteForMessage(tables.names[id]) + " and " +
                      quoteForMessage(name));
    }
    named[id] = true;
    tables.names[id] = name;
    auto [entry, isNew] = tables.ids.try_emplace(tables.names[id], static_cast<int32_t>(id));
    if (!isNew)
      return wrong(where + ": " + quoteForMessage(name), "one id",
                   std::to_string(entry->second) + " and " + std::to_string(id));
    return {};
  }

  Status readNames(const json &root, const json &model) {
    const json &vocab = member(model, "vocab");
    if (!vocab.is_object() || vocab.empty())
      return wrong("model.vocab", "an object with entries", describe(vocab));
    const json &addedTokens = member(root, "added_tokens");
    if (!addedTokens.is_null() && !addedTokens.is_array())
      return wrong("added_tokens", "an array", describe(addedTokens));
    size_t limit = vocab.size() + addedTokens.size();
    std::string idRange = "an id from 0 to " + std::to_string(limit - 1);
    tables.names.resize(limit); // never grows: `ids` points into it
    tables.flags.resize(limit);
    tables.ids.reserve(limit);
    named.resize(limit);
    for (const auto &[name, id] : vocab.items()) {
      if (!isId(id, limit))
        return wrong("model.vocab: " + quoteForMessage(name), idRange, describe(id));
      if (Status status = setName("model.vocab", id.get<size_t>(), name); !status)
        return status;
    }
    for (size_t i = 0; i < addedTokens.size(); ++i)
      if (Status status = readAddedToken(addedTokens[i], i, limit, idRange); !status)
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
    auto bos = tables.ids.find("<bos>");
    if (bos == tables.ids.end())
      return badInput(std::string(file) + ": no token <bos>");
    tables.bosId = bos->second;
    return {};
  }

  Status readAddedToken(const json &token, size_t index, size_t limit, const std::string &idRange) {
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
    if (!isId(id, limit))
      return wrong(where + ".id", idRange, describe(id));
    for (const char *key : {"single_word", "lstrip", "rstrip", "normalized"})
      if (Status status = expectValue(token, where, key, false, true); !status)
        return status;
    const json &special = member(token, "special");
    if (!special.is_boolean())
      return wrong(where + ".special", "true or false", describe(special));
    if (Status status = setName(where, id.get<size_t>(), name); !status)
      return status;
    bool isSpecial = special.get<bool>();
    bool isControl = isSpecial || (name.size() > 3 && name.front() == '<' && name.back() == '>' &&
                                   (name[1] == '|' || name[name.size() - 2] == '|'));
    auto number = id.get<int32_t>();
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
      auto found = tables.ids.find(name);
      if (found == tables.ids.end())
        return badInput(std::string(file) + ": model.vocab: no byte token " + name);
      tables.byteIds[byte] = found->second;
      tables.flags[found->second] |= TokenizerTables::Byte;
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

  Status readMerges(const json &merges) {
    if (!merges.is_array())
      return wrong("model.merges", "an array", describe(merges));
    tables.merger.reset(merges.size());
    tables.joinable.reset(merges.size());
    std::string joined;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const json &merge = merges[rank];
      std::string_view parts[2];
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        parts[0] = merge[0].get_ref<const std::string &>();
        parts[1] = merge[1].get_ref<const std::string &>();
      } else if (merge.is_string()) {
        std::string_view text = merge.get_ref<const std::string &>();
        size_t space = text.find(' ');
        if (space != text.npos && text.find(' ', space + 1) == text.npos) {
          parts[0] = text.substr(0, space);
          parts[1] = text.substr(space + 1);
        }
      }
      if (parts[0].empty() || parts[1].empty())
        return wrong(mergeName(rank), "two token names", merge.dump().substr(0, 60));
      joined.assign(parts[0]).append(parts[1]);
      int32_t ids[3];
      for (int i = 0; i < 3; ++i) {
        std::string_view name = i < 2 ? parts[i] : std::string_view(joined);
        auto found = tables.ids.find(name);
        if (found == tables.ids.end())
          return wrong(mergeName(rank), "tokens of the vocabulary", quoteForMessage(name));
        ids[i] = found->second;
      }
      tables.merger.insert(ids[0], ids[1], static_cast<uint32_t>(rank), ids[2]);
      // A byte token is not spelled as the text that it stands for.
      if ((tables.flags[ids[0]] | tables.flags[ids[1]]) & TokenizerTables::Byte)
        tables.joinable.setAll();
      tables.joinable.insert(lastCodePoint(parts[0]), utf8::firstCharacter(parts[1]).codePoint);
    }
    return {};
  }

  static std::string mergeName(size_t rank) { return "model.merges[" + std::to_string(rank) + "]"; }

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
  Expected<json> root = parseJson(text, name);
  if (!root)
    return root.status();
  return Reader(name, tables).read(*root);
}

} // namespace gemma
