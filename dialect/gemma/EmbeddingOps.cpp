// Verifiers of embed, select_rows, lm_head and top_k.
#include "dialect/gemma/Verify.h"

using namespace mlir;
using namespace gemma::ir;

LogicalResult EmbedOp::verify() {
  // embed_c1
  if (failed(verifySameRows(*this, getTokens().getType(), getY().getType())))
    return failure();
  // embed_c2
  return verifyFinite(*this, "mul", getMul());
}

LogicalResult EmbedOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // embed_c3: the vocabulary is the weight's own.
  auto weight = symbols.lookupNearestSymbolFrom<gemma::program::WeightOp>(*this, getWeightAttr());
  int64_t vocabulary = 1;
  if (weight)
    if (auto type = dyn_cast<RankedTensorType>(weight.getType()); type && type.getRank() == 2)
      vocabulary = type.getDimSize(0);
  return verifyWeight(*this, symbols, getWeightAttr(), {vocabulary, columnsOf(getY().getType())});
}

LogicalResult SelectRowsOp::verify() {
  // select_rows_c1
  if (failed(verifySameRows(*this, getRows().getType(), getY().getType())))
    return failure();
  // select_rows_c2
  if (columnsOf(getX().getType()) != columnsOf(getY().getType()))
    return emitOpError() << "expected a result of " << columnsOf(getX().getType())
                         << " columns, got " << columnsOf(getY().getType());
  return verifySameElement(*this, getX().getType(), getY().getType());
}

LogicalResult LmHeadOp::verify() {
  // lm_head_c1
  if (failed(verifySameRows(*this, getX().getType(), getY().getType())))
    return failure();
  // lm_head_c2
  if (failed(verifyFinite(*this, "mul", getMul())))
    return failure();
  // lm_head_c3
  std::optional<APFloat> softcap = getSoftcap();
  return softcap ? verifyPositive(*this, "softcap", *softcap) : success();
}

LogicalResult LmHeadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // lm_head_c4
  return verifyWeight(*this, symbols, getWeightAttr(),
                      {columnsOf(getY().getType()), columnsOf(getX().getType())});
}

LogicalResult TopKOp::verify() {
  auto k = static_cast<int64_t>(getK());
  // top_k_c1
  if (k < 1 || k > columnsOf(getX().getType()))
    return emitOpError() << "expected k in [1, " << columnsOf(getX().getType()) << "], got " << k;
  // top_k_c2
  if (failed(verifySameRows(*this, getX().getType(), getValues().getType())) ||
      failed(verifySameElement(*this, getX().getType(), getValues().getType())))
    return failure();
  if (columnsOf(getValues().getType()) != k)
    return emitOpError() << "expected values of " << k << " columns, got "
                         << columnsOf(getValues().getType());
  // top_k_c3
  auto ids = cast<RankedTensorType>(getIds().getType());
  if (ids.getRank() != 2 || ids.getDimSize(1) != k)
    return emitOpError() << "expected ids of shape [R, " << k << "], got " << ids;
  return verifySameRows(*this, getX().getType(), ids);
}
