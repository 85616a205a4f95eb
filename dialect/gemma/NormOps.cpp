// Verifiers of the normalisations.
#include "dialect/gemma/Verify.h"

using namespace mlir;
using namespace gemma::ir;

// rmsnorm_c1, rmsnorm_offset_c1, rmsnorm_unit_c1, l2norm_c1, rmsnorm_gated_c1
LogicalResult RmsNormOp::verify() { return verifyPositive(*this, "eps", getEps()); }
LogicalResult RmsNormOffsetOp::verify() { return verifyPositive(*this, "eps", getEps()); }
LogicalResult RmsNormUnitOp::verify() { return verifyPositive(*this, "eps", getEps()); }
LogicalResult L2NormOp::verify() { return verifyPositive(*this, "eps", getEps()); }
LogicalResult RmsNormGatedOp::verify() { return verifyPositive(*this, "eps", getEps()); }

// rmsnorm_c2, rmsnorm_offset_c2, rmsnorm_gated_c2
LogicalResult RmsNormOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyWeight(*this, symbols, getWeightAttr(), columnsOf(getX().getType()));
}
LogicalResult RmsNormOffsetOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyWeight(*this, symbols, getWeightAttr(), columnsOf(getX().getType()));
}
LogicalResult RmsNormGatedOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyWeight(*this, symbols, getWeightAttr(), columnsOf(getX().getType()));
}
