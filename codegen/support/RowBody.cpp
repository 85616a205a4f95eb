#include "codegen/support/RowBody.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <set>

using namespace mlir;

namespace gemma::codegen {

Type computeType(Type type) {
  Type element = getElementTypeOrSelf(type);
  bool half = isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 16;
  return half ? Type(Float32Type::get(type.getContext())) : element;
}

int64_t rowLength(Value row) { return cast<RankedTensorType>(row.getType()).getDimSize(0); }

/// Adds the seams of `value` within its elements [lo, hi), moved by `shift`.
static void collectSeams(kernel::RowsOp op, Value value, int64_t shift, int64_t lo, int64_t hi,
                         std::set<int64_t> &seams) {
  Operation *source = value.getDefiningOp();
  if (lo >= hi || !source || !isa<RankedTensorType>(value.getType()) ||
      source->getBlock() != &op.getBody().front())
    return;
  if (auto extract = dyn_cast<tensor::ExtractSliceOp>(source)) {
    int64_t offset = extract.getStaticOffsets()[0];
    collectSeams(op, extract.getSource(), shift - offset, lo + offset, hi + offset, seams);
    return;
  }
  auto insert = dyn_cast<tensor::InsertSliceOp>(source);
  if (!insert) {
    for (Value operand : source->getOperands())
      if (isa<RankedTensorType>(operand.getType()))
        collectSeams(op, operand, shift, lo, hi, seams);
    return;
  }
  int64_t from = insert.getStaticOffsets()[0], to = from + insert.getStaticSizes()[0];
  for (int64_t seam : {from, to})
    if (lo < seam && seam < hi)
      seams.insert(seam + shift);
  collectSeams(op, insert.getSource(), shift + from, std::max(lo, from) - from,
               std::min(hi, to) - from, seams);
  collectSeams(op, insert.getDest(), shift, lo, std::min(hi, from), seams);
  collectSeams(op, insert.getDest(), shift, std::max(lo, to), hi, seams);
}

void forSegments(kernel::RowsOp op, ArrayRef<Value> rows,
                 function_ref<void(int64_t, int64_t)> body) {
  int64_t length = rowLength(rows.front());
  std::set<int64_t> seams = {0, length};
  for (Value row : rows)
    collectSeams(op, row, 0, 0, length, seams);
  for (auto lo = seams.begin(), hi = std::next(lo); hi != seams.end(); ++lo, ++hi)
    body(*lo, *hi);
}

bool isElementwise(kernel::RowsOp op) {
  Block &body = op.getBody().front();
  std::set<int64_t> seams, lengths;
  for (Value yielded : body.getTerminator()->getOperands()) {
    collectSeams(op, yielded, 0, 0, rowLength(yielded), seams);
    lengths.insert(rowLength(yielded));
  }
  return seams.empty() && lengths.size() <= 1 && body.getOps<tensor::ExtractSliceOp>().empty();
}

} // namespace gemma::codegen
