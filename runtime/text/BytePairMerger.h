// Byte-pair encoding of one word: merges neighbours, best rank first.
#pragma once

#include "runtime/text/FlatTable.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gemma {

/// The merges of a tokenizer (Sennrich, Haddow, Birch 2016, section 3.2): a pair of tokens, its
/// rank (0 merges first) and what it becomes.
class BytePairMerger {
public:
  /// Working memory, kept between words.
  class Workspace {
    friend class BytePairMerger;
    struct Symbol {
      int32_t id; ///< -1 once merged into its left neighbour
      uint32_t previous, next;
    };
    std::vector<Symbol> symbols;
    std::vector<uint64_t> candidates; ///< a min-heap of rank << 32 | position of the left symbol
  };

  /// Longer words are cut: positions have 32 bits.
  static constexpr size_t maxWordSymbols = size_t(1) << 30;

  void reset(size_t count) { merges.reset(count); }

  /// The last of two merges with the same pair counts.
  void insert(int32_t left, int32_t right, uint32_t rank, int32_t merged) {
    merges.insert(key(left, right), {rank, merged});
  }

  /// Appends the encoding of a word of 0 to maxWordSymbols symbols to `ids`. Of two possible merges
  /// with one rank the left one is made first. O(n log n).
  void encode(const std::vector<int32_t> &word, std::vector<int32_t> &ids,
              Workspace &workspace) const;

private:
  struct Merge {
    uint32_t rank;
    int32_t merged;
  };

  static uint64_t key(int32_t left, int32_t right) {
    return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
  }

  FlatTable<Merge> merges;
};

} // namespace gemma
