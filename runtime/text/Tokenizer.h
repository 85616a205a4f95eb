// The tokenizer of a Gemma checkpoint: tokenizer.json in the form of the `tokenizers` library.
//
// What is computed, in this order (test/data/tokenizers/gemma3/CASES.md holds golden cases):
//   1. added tokens are cut out of the raw text, leftmost first, of those the longest;
//   2. in the rest each space becomes U+2581;
//   3. each such piece is one word of byte-pair encoding, from single characters; a character
//      outside the vocabulary becomes its UTF-8 bytes, the tokens <0x00>..<0xFF>.
// Decoding goes back: U+2581 becomes a space, byte tokens their bytes.
#pragma once

#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gemma {

struct TokenizerTables;

struct EncodeOptions {
  bool addBos = false; ///< put <bos> first
  /// Whether the names of control tokens in the text stand for these tokens. False for text that
  /// somebody typed, which then can not forge a turn; added tokens that are plain text (runs of
  /// newlines, HTML tags) are found in any case.
  bool parseSpecial = true;
};

struct DecodeOptions {
  bool skipSpecial = false; ///< leave out the tokens that the file marks as special
};

/// Immutable; a copy shares the tables. Safe to use from several threads at once.
class Tokenizer {
public:
  /// Reads `path`, a tokenizer.json or a folder that holds one.
  ///
  /// Everything is checked; a file that asks for what is not computed here (another model type,
  /// normalizer, pre-tokenizer, decoder, ...) is refused by the key that says so. The keys
  /// `truncation` and `padding` are ignored, as transformers does.
  static Expected<Tokenizer> fromFile(const std::filesystem::path &path);
  /// The same from the bytes of a tokenizer.json; `name` is what messages call it.
  static Expected<Tokenizer> fromJson(std::string_view json,
                                      std::string_view name = "tokenizer.json");

  /// Encodes any bytes; time O(n log n) in the longest word, O(n) in the rest. A byte that is not
  /// part of well-formed UTF-8 becomes its byte token, so that nothing is lost.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  /// The text of `ids`, well-formed UTF-8 (see Detokenizer, which gives the same in parts).
  /// Ids outside the vocabulary stand for nothing.
  std::string decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  /// Ids are 0 .. vocabSize() - 1, added tokens included: may be more than a model has.
  int32_t vocabSize() const;
  bool contains(int32_t id) const { return id >= 0 && id < vocabSize(); }
  /// <bos>.
  int32_t bosId() const;
  /// The id of the token with this name as the file spells it ("<bos>", "\u2581the", "<0x0A>").
  std::optional<int32_t> tokenId(std::string_view name) const;

  // The following want contains(id).

  /// The name as the file spells it.
  std::string_view tokenName(int32_t id) const;
  /// What the token adds to a text, before UTF-8 is checked: one byte for a byte token, else its
  /// name with spaces in place of U+2581.
  std::string_view pieceBytes(int32_t id) const;
  /// Marked as special by the file: left out by DecodeOptions::skipSpecial.
  bool isSpecial(int32_t id) const;
  /// Not to be had from typed text: special, or an added token named <|...> or <...|>, the form of
  /// all that structures a Gemma 4 prompt.
  bool isControl(int32_t id) const;
  /// One of <0x00> .. <0xFF>.
  bool isByte(int32_t id) const;

private:
  explicit Tokenizer(std::shared_ptr<const TokenizerTables> tables);

  std::shared_ptr<const TokenizerTables> tables;
};

} // namespace gemma
