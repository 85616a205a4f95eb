#include "codegen/gpu/AttentionQueries.h"

using namespace mlir;

namespace gemma::codegen::cuda {

void AttentionQueries::findQueries(Value block) {
  kvHead = b.mod(block, kvHeads);
  split = b.mod(b.floorDiv(block, kvHeads), splits);
  Value number = b.floorDiv(block, kvHeads * splits);
  int64_t length = op.getQueryTile();
  Value zero = b.index(0), sequences = b.sizes[1];
  // Every sequence has new tokens: if the n-th one's first is token n, each before it has one,
  // and the n-th tile is its first. So it is in decode, where there is nothing to search.
  Value clamped = b.minimum(number, b.sub(sequences, b.index(1)));
  Value begin = b.loadIndex(rowStarts, clamped), end = b.loadIndex(rowStarts, b.add(clamped, 1));
  Value known = b.both(b.less(number, sequences), b.equal(begin, number));
  Value count = b.minimum(b.sub(end, begin), b.index(length));
  SmallVector<Value> found = {zero, b.select(known, number, zero), b.select(known, begin, zero),
                              b.select(known, count, zero)};
  found = b.loop(b.select(known, sequences, zero), sequences, b.index(1), found,
                 [&](Value row, ValueRange carried) {
                   Value begin = b.loadIndex(rowStarts, row);
                   Value end = b.loadIndex(rowStarts, b.add(row, 1));
                   Value before = carried[0];
                   Value after = b.add(before, b.ceilDiv(b.sub(end, begin), length));
                   Value here = b.both(b.notLess(number, before), b.less(number, after));
                   Value first = b.add(begin, b.mul(b.sub(number, before), length));
                   Value count = b.minimum(b.sub(end, first), b.index(length));
                   return SmallVector<Value>{after, b.select(here, row, carried[1]),
                                             b.select(here, first, carried[2]),
                                             b.select(here, count, carried[3])};
                 });
  sequence = found[1];
  firstQuery = found[2];
  queries = found[3];
}

void AttentionQueries::findKeys() {
  // Position of the step's token t in the sequence: t + shift.
  Value end = b.loadIndex(rowStarts, b.add(sequence, 1));
  Value shift = b.sub(b.loadIndex(seqLens, sequence), end);
  if (op.getPaging().getRing() != 0)
    slot = b.loadIndex(slots, sequence);
  validRows = b.mul(queries, group);
  firstPosition = b.add(firstQuery, shift);
  lastKey = b.add(firstPosition, b.sub(queries, b.index(1)));
  firstKey = firstVisible(firstPosition);
}

Value AttentionQueries::firstVisible(Value position) {
  if (op.getWindow() == 0)
    return b.index(0);
  return b.maximum(b.sub(position, b.index(op.getWindow() - 1)), b.index(0));
}

Value AttentionQueries::physicalPage(Value number) {
  int64_t ring = op.getPaging().getRing();
  if (ring == 0)
    return b.loadIndex(pageTable, {sequence, number});
  return b.add(b.mul(slot, ring), b.mod(number, ring));
}

std::pair<Value, Value> AttentionQueries::queryOf(Value row) {
  return {b.add(firstQuery, b.floorDiv(row, group)),
          b.add(b.mul(kvHead, group), b.mod(row, group))};
}

} // namespace gemma::codegen::cuda
