#include "runtime/text/BytePairMerger.h"

#include <algorithm>
#include <cassert>
#include <functional>

namespace gemma {

void BytePairMerger::encode(const std::vector<int32_t> &word, std::vector<int32_t> &ids,
                            Workspace &workspace) const {
  assert(word.size() <= maxWordSymbols);
  auto size = static_cast<uint32_t>(word.size());
  auto &symbols = workspace.symbols;
  auto &heap = workspace.candidates;
  symbols.clear();
  heap.clear();
  for (uint32_t i = 0; i < size; ++i) {
    symbols.push_back({word[i], i - 1, i + 1});
    if (i + 1 == size)
      break;
    if (const Merge *merge = merges.lookup(key(word[i], word[i + 1])))
      heap.push_back(uint64_t(merge->rank) << 32 | i);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  auto propose = [&](uint32_t left, uint32_t right) {
    if (const Merge *merge = merges.lookup(key(symbols[left].id, symbols[right].id))) {
      heap.push_back(uint64_t(merge->rank) << 32 | left);
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  };
  while (!heap.empty()) {
    uint64_t best = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    auto position = static_cast<uint32_t>(best);
    auto rank = static_cast<uint32_t>(best >> 32);
    auto &left = symbols[position];
    if (left.id < 0 || left.next >= size)
      continue;
    // The pair may have changed since it was proposed.
    auto &right = symbols[left.next];
    const Merge *merge = merges.lookup(key(left.id, right.id));
    if (!merge || merge->rank != rank)
      continue;
    left.id = merge->merged;
    right.id = -1;
    left.next = right.next;
    if (left.next < size) {
      symbols[left.next].previous = position;
      propose(position, left.next);
    }
    if (position > 0)
      propose(left.previous, position);
  }
  for (uint32_t i = 0; i < size; i = symbols[i].next)
    ids.push_back(symbols[i].id);
}

} // namespace gemma
