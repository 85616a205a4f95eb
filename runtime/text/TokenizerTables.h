// What a tokenizer.json becomes in memory. Private to runtime/text.
#pragma once

#include "runtime/support/Status.h"
#include "runtime/text/AddedTokens.h"
#include "runtime/text/BytePairMerger.h"
#include "runtime/text/FlatTable.h"

#include <array>
#include <bit>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gemma {

/// U+2581 LOWER ONE EIGHTH BLOCK, which stands for a space.
inline constexpr std::string_view spaceMark = "\xE2\x96\x81";
inline constexpr uint32_t spaceMarkCodePoint = 0x2581;

/// Pairs of characters that some merge can bring together: the last one of its left part and the
/// first one of its right part. Between two other characters a word can be cut without changing
/// its encoding, which keeps words short and the merger in the cache.
class JoinablePairs {
public:
  void reset(size_t count) { others.reset(count); }
  /// Every pair may join: words are not cut.
  void setAll() { all = true; }
  void insert(uint32_t left, uint32_t right) {
    if (int l = smallIndex(left), r = smallIndex(right); l >= 0 && r >= 0)
      small.set(size_t(l) * 128 + r);
    else
      others.insert(uint64_t(left) << 32 | right, true);
  }
  bool contains(uint32_t left, uint32_t right) const {
    if (all)
      return true;
    if (int l = smallIndex(left), r = smallIndex(right); l >= 0 && r >= 0)
      return small.test(size_t(l) * 128 + r);
    return others.lookup(uint64_t(left) << 32 | right) != nullptr;
  }

private:
  /// ASCII, with U+2581 in the place of the space.
  static int smallIndex(uint32_t codePoint) {
    if (codePoint == spaceMarkCodePoint)
      return ' ';
    return codePoint < 128 && codePoint != ' ' ? static_cast<int>(codePoint) : -1;
  }

  bool all = false;
  std::bitset<size_t(128) * 128> small;
  FlatTable<bool> others;
};

/// Finds ids by name; the names stay where they are, in a list by id.
class NameTable {
public:
  void reset(size_t count) { slots.assign(std::bit_ceil(count * 2 + 2), Slot{}); }

  /// False if another id has the name of `id`.
  bool insert(int32_t id, const std::vector<std::string> &names) {
    uint64_t hash = std::hash<std::string_view>()(names[id]);
    Slot &slot = slots[find(hash, names[id], names)];
    if (slot.id >= 0)
      return false;
    slot = {static_cast<uint32_t>(hash >> 32), id};
    return true;
  }

  std::optional<int32_t> find(std::string_view name, const std::vector<std::string> &names) const {
    const Slot &slot = slots[find(std::hash<std::string_view>()(name), name, names)];
    return slot.id >= 0 ? std::optional(slot.id) : std::nullopt;
  }

private:
  struct Slot {
    uint32_t hash = 0; ///< the upper half, which spares most comparisons of names
    int32_t id = -1;
  };

  size_t find(uint64_t hash, std::string_view name, const std::vector<std::string> &names) const {
    size_t index = hash & (slots.size() - 1);
    while (slots[index].id >= 0 &&
           (slots[index].hash != hash >> 32 || names[slots[index].id] != name))
      index = (index + 1) & (slots.size() - 1);
    return index;
  }

  std::vector<Slot> slots;
};

struct TokenizerTables {
  enum Flag : uint8_t { Special = 1, Control = 2, Byte = 4 };

  // By id.
  std::vector<std::string> names;
  std::vector<std::string> pieces; ///< Tokenizer::pieceBytes
  std::vector<uint8_t> flags;

  NameTable ids; ///< by name
  std::array<int32_t, 256> byteIds{};
  FlatTable<int32_t> characterIds; ///< by code point: the tokens of one character
  BytePairMerger merger;
  JoinablePairs joinable;
  AddedTokens added;
  int32_t bosId = 0;
};

/// Fills the tables from the text of a tokenizer.json; messages begin with `name`.
Status readTokenizerTables(std::string_view json, std::string_view name, TokenizerTables &tables);

} // namespace gemma
