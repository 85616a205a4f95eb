// The attention of KernelReference.
#include "test/unit/gpu/BoundedMath.h"
#include "test/unit/gpu/KernelReference.h"

using namespace mlir;

namespace gemma::test {

void KernelReference::evaluate(kernel::AttentionOp op, int64_t block) {
  View &values = view(op.getVCache());
  View &rowStarts = view(op.getRowStarts()), &seqLens = view(op.getSeqLens());
  int64_t kvHeads = values.type.getDimSize(1), page = values.type.getDimSize(2);
  int64_t dim = values.type.getDimSize(3), head = block % kvHeads;
  auto queryTile = static_cast<int64_t>(op.getQueryTile());
  int64_t group = view(op.getOut()).type.getDimSize(1) / kvHeads;
  int64_t splits = op.getGpuTileAttr() ? op.getGpuTileAttr().getSplits() : 1;
  int64_t number = block / kvHeads / splits;

  // The number-th tile of the step; a surplus block finds none.
  int64_t sequence = 0, first = 0, end = 0;
  for (;; ++sequence) {
    if (sequence == sizes[1])
      return;
    first = loadIndex(rowStarts, sequence);
    end = loadIndex(rowStarts, sequence + 1);
    int64_t tiles = llvm::divideCeil(end - first, queryTile);
    if (number < tiles)
      break;
    number -= tiles;
  }
  int64_t shift = loadIndex(seqLens, sequence) - end;
  first += number * queryTile;
  end = std::min(first + queryTile, end);
  auto window = static_cast<int64_t>(op.getWindow());
  auto firstVisible = [&](int64_t position) {
    return window ? std::max<int64_t>(position - window + 1, 0) : 0;
  };

  int64_t firstKey = firstVisible(first + shift);
  std::vector<Row> keyRows, valueRows;
  for (int64_t position = firstKey; position < end + shift; ++position) {
    int64_t ring = op.getPaging().getRing(), pageNumber = position / page;
    int64_t physical = ring ? loadIndex(view(op.getSlots()), sequence) * ring + pageNumber % ring
                            : loadIndex(view(op.getPageTable()), {sequence, pageNumber});
    Row &valueRow = valueRows.emplace_back(), &keyRow = keyRows.emplace_back();
    for (int64_t d = 0; d < dim; ++d)
      valueRow.push_back(load(values, {physical, head, position % page, d}));
    if (!op.getKCache())
      keyRow = keyOfValues(op, valueRow, position);
    else
      for (int64_t d = 0; d < dim; ++d)
        keyRow.push_back(load(view(op.getKCache()), {physical, head, d, position % page}));
  }
  for (int64_t token = first; token < end; ++token)
    for (int64_t h = head * group; h < (head + 1) * group && problem.empty(); ++h) {
      auto skipped = static_cast<size_t>(firstVisible(token + shift) - firstKey);
      auto seen = static_cast<size_t>(token + shift - firstKey) + 1 - skipped;
      attend(op, token, h, std::span(keyRows).subspan(skipped, seen),
             std::span(valueRows).subspan(skipped, seen));
    }
}

/// Whether the kernel makes this lane of keys, rather than take w into the query and the value as
/// it is: octets of rotated lanes, two at a time.
static bool isMade(kernel::AttentionOp op, size_t lane) {
  auto active = static_cast<size_t>(cast<MemRefType>(op.getKeyParts()[1].getType()).getDimSize(1));
  auto half = static_cast<size_t>(*op.getRot() / 2);
  return half % 16 != 0 || lane % half < llvm::alignTo(active, 16);
}

/// rope(w ⊙ v), rounded to bf16, in the lanes that are made; else v.
KernelReference::Row KernelReference::keyOfValues(kernel::AttentionOp op, const Row &values,
                                                  int64_t position) {
  OperandRange parts = op.getKeyParts();
  Row key;
  for (size_t d = 0; d < values.size(); ++d)
    key.push_back(values[d] * load(view(parts[0]), static_cast<int64_t>(d)));
  auto half = static_cast<size_t>(*op.getRot() / 2);
  for (int64_t i = 0; i < view(parts[1]).type.getDimSize(1); ++i) {
    auto lane = [&](unsigned part, int64_t row) { return load(view(parts[part]), {row, i}); };
    Bounded ch = lane(1, position / 512), sh = lane(2, position / 512);
    Bounded cl = lane(3, position % 512), sl = lane(4, position % 512);
    Bounded cosine = ch * cl - sh * sl, sine = sh * cl + ch * sl;
    Bounded &low = key[static_cast<size_t>(i)], &high = key[static_cast<size_t>(i) + half];
    Bounded turned = low * cosine - high * sine;
    high = high * cosine + low * sine;
    low = turned;
  }
  for (size_t d = 0; d < key.size(); ++d)
    key[d] = isMade(op, d) ? asBf16(key[d]) : values[d];
  return key;
}

/// The formulas of the header.
void KernelReference::attend(kernel::AttentionOp op, int64_t token, int64_t head,
                             std::span<const Row> keys, std::span<const Row> values) {
  double scale = op.getScale().convertToDouble(), highest = -INFINITY;
  size_t dim = values.front().size();
  // Of the last split.
  int64_t copy = view(op.getQ()).type.getDimSize(1) - view(op.getOut()).type.getDimSize(1);
  Row query, scores;
  for (size_t d = 0; d < dim; ++d) {
    Bounded lane = load(view(op.getQ()), {token, head + copy, static_cast<int64_t>(d)});
    if (!op.getKCache() && !isMade(op, d))
      lane = lane * load(view(op.getKeyParts()[0]), static_cast<int64_t>(d));
    query.push_back(asBf16(lane));
  }
  for (const Row &key : keys) {
    double sum = 0, magnitude = 0, error = 0;
    for (size_t d = 0; d < dim; ++d) {
      sum += query[d].value * key[d].value;
      magnitude += std::fabs(query[d].value * key[d].value);
      error += std::fabs(query[d].value) * key[d].error + std::fabs(key[d].value) * query[d].error +
               query[d].error * key[d].error;
    }
    scores.push_back({scale * sum, scale * (error + sumError * magnitude)});
    highest = std::max(highest, scale * sum);
  }
  double total = 0, least = 0;
  std::vector<double> weights, relative;
  for (Bounded score : scores) {
    double weight = std::exp(score.value - highest);
    double error =
        std::expm1(score.error + sumError * (1 + std::fabs(score.value) + std::fabs(highest))) +
        0x1p-8;
    weights.push_back(weight);
    relative.push_back(error);
    total += weight;
    least += weight * std::max(1 - error, 0.0);
  }
  if (least <= 0 && values.size() > 1) {
    wrong("attention: the scores' bounds say nothing about the weights");
    return;
  }
  for (size_t d = 0; d < dim; ++d) {
    double out = 0, magnitude = 0, error = 0, farthest = 0;
    for (size_t j = 0; j < weights.size(); ++j) {
      out += weights[j] * values[j][d].value / total;
      magnitude += weights[j] * std::fabs(values[j][d].value) / total;
    }
    for (size_t j = 0; j < weights.size(); ++j) {
      error += weights[j] * (relative[j] * std::fabs(values[j][d].value - out) +
                             (1 + relative[j]) * values[j][d].error);
      farthest = std::max(farthest, std::fabs(values[j][d].value - out) + values[j][d].error +
                                        0x1p-8 * std::fabs(values[j][d].value));
    }
    // Whatever the weights, an average is among what it is of; of one key it is that key's value.
    double spread = std::min(farthest, error / least); // which may be 0 / 0
    Bounded result = {out, spread + sumError * (magnitude + std::fabs(out)) + tiny};
    store(view(op.getOut()), {token, head, static_cast<int64_t>(d)}, result);
  }
}

} // namespace gemma::test
