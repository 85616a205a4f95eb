#include "reference/Values.h"

namespace gemma::reference {

std::vector<int64_t> Batch::positions(int64_t b) const {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < rowSize(b); ++i)
    result.push_back(firstPosition(b) + i);
  return result;
}

std::vector<int64_t> Batch::positions() const {
  std::vector<int64_t> result;
  for (int64_t b = 0; b < size(); ++b)
    for (int64_t position : positions(b))
      result.push_back(position);
  return result;
}

void Batch::add(int64_t sequence, int64_t count, int64_t first) {
  if (rowStarts.empty())
    rowStarts.push_back(0);
  sequences.push_back(sequence);
  rowStarts.push_back(rowStarts.back() + count);
  seqLens.push_back(first + count);
}

} // namespace gemma::reference
