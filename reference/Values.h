// What flows along the edges of the interpreted IR.
#pragma once

#include "reference/Tensor.h"

#include <cstdint>
#include <map>
#include <memory>
#include <variant>
#include <vector>

namespace gemma::reference {

/// The ragged batch of one step: B rows, each the newest tokens of one sequence.
struct Batch {
  std::vector<int64_t> sequences; ///< [B] who owns the row; any numbers, distinct
  std::vector<int64_t> rowStarts; ///< [B + 1] first token of each row; 0 first, T last
  std::vector<int64_t> seqLens;   ///< [B] tokens of the sequence, the step's own included

  int64_t size() const { return int64_t(sequences.size()); }
  int64_t tokens() const { return rowStarts.empty() ? 0 : rowStarts.back(); }
  int64_t rowSize(int64_t b) const { return rowStarts[size_t(b) + 1] - rowStarts[size_t(b)]; }
  /// Position of the row's first token.
  int64_t firstPosition(int64_t b) const { return seqLens[size_t(b)] - rowSize(b); }
  /// [T]
  std::vector<int64_t> positions() const;
  /// [rowSize(b)]
  std::vector<int64_t> positions(int64_t b) const;

  /// One row: `count` tokens of `sequence` from position `first` on.
  static Batch single(int64_t count, int64_t first = 0, int64_t sequence = 0) {
    return {{sequence}, {0, count}, {first + count}};
  }
  /// Adds a row.
  void add(int64_t sequence, int64_t count, int64_t first);
};

/// Keys and values of one sequence in one layer, positions 0 ... L-1: k and v are [L, c, D]; k has
/// no elements where the cache stores values alone.
struct KeyValues {
  Tensor k, v;
  int64_t length() const { return v.shape.empty() ? 0 : v.dim(0); }
};

/// One version of a layer's cache: everything that each sequence ever appended, windows or not. The
/// reference knows nothing of pages and rings. Versions share what they have in common.
class CacheValue {
public:
  /// Null if the sequence has none.
  const KeyValues *find(int64_t sequence) const {
    auto found = bySequence.find(sequence);
    return found == bySequence.end() ? nullptr : found->second.get();
  }
  void set(int64_t sequence, KeyValues kv) {
    bySequence[sequence] = std::make_shared<const KeyValues>(std::move(kv));
  }
  void drop(int64_t sequence) { bySequence.erase(sequence); }

private:
  std::map<int64_t, std::shared_ptr<const KeyValues>> bySequence;
};

/// Token ids or row numbers.
using Ids = std::vector<int32_t>;

/// A tensor of floats, ids, a batch, a cache, or an index.
using NodeValue = std::variant<Tensor, Ids, Batch, CacheValue, int64_t>;

} // namespace gemma::reference
