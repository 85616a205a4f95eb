// A hash table from 64-bit keys to small values, for tables that are filled once and then read.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gemma {

/// Open addressing with linear probing, at most half full: one cache line a look-up. There are
/// 515,000 merges, and a look-up for every pair of neighbours in a text.
/// The key ~0 is not allowed. Reading an empty table is allowed.
template <typename Value> class FlatTable {
public:
  /// Makes room for `count` keys. Drops what the table held.
  void reset(size_t count) {
    size_t capacity = std::bit_ceil(count * 2 + 2);
    slots.assign(capacity, Slot{});
    shift = 64 - std::countr_zero(capacity);
  }

  /// Adds a key, or gives a key that is there a new value. At most reset()'s count of keys.
  void insert(uint64_t key, Value value) {
    Slot &slot = slots[find(key)];
    slot.key = key;
    slot.value = value;
  }

  /// The value of `key`, or null.
  const Value *lookup(uint64_t key) const {
    if (slots.empty())
      return nullptr;
    const Slot &slot = slots[find(key)];
    return slot.key == key ? &slot.value : nullptr;
  }

private:
  static constexpr uint64_t emptyKey = ~uint64_t(0);
  struct Slot {
    uint64_t key = emptyKey;
    Value value{};
  };

  /// The slot of `key`, or the empty one where it belongs.
  size_t find(uint64_t key) const {
    uint64_t mixed = (key ^ key >> 32) * 0x9E3779B97F4A7C15u;
    size_t index = mixed >> shift;
    while (slots[index].key != emptyKey && slots[index].key != key)
      index = (index + 1) & (slots.size() - 1);
    return index;
  }

  std::vector<Slot> slots;
  int shift = 63;
};

} // namespace gemma
