// Op Spec names, formulas and costs of the nodes.
#include "dialect/gemma/Gemma.h"

using namespace gemma::ir;

llvm::StringRef EmbedOp::getOpSpec() { return "embed"; }
std::string EmbedOp::getFormula() { return ""; }
Cost EmbedOp::getCost(const CostSizes &sizes) { return {}; }

llvm::StringRef LmHeadOp::getOpSpec() { return "lmHead"; }
std::string LmHeadOp::getFormula() { return ""; }
Cost LmHeadOp::getCost(const CostSizes &sizes) { return {}; }

llvm::StringRef RmsNormOp::getOpSpec() { return "rmsnorm"; }
std::string RmsNormOp::getFormula() { return ""; }
Cost RmsNormOp::getCost(const CostSizes &sizes) { return {}; }

llvm::StringRef RmsNormOffsetOp::getOpSpec() { return "rmsnormOffset"; }
std::string RmsNormOffsetOp::getFormula() { return ""; }
Cost RmsNormOffsetOp::getCost(const CostSizes &sizes) { return {}; }

llvm::StringRef RmsNormUnitOp::getOpSpec() { return "rmsnormUnit"; }
std::string RmsNormUnitOp::getFormula() { return ""; }
Cost RmsNormUnitOp::getCost(const CostSizes &sizes) { return {}; }

llvm::StringRef L2NormOp::getOpSpec() { return "l2norm"; }
std::string L2NormOp::getFormula() { return ""; }
Cost L2NormOp::getCost(const CostSizes &sizes) { return {}; }

llvm::StringRef RmsNormGatedOp::getOpSpec() { return "rmsnormGated"; }
std::string RmsNormGatedOp::getFormula() { return ""; }
Cost RmsNormGatedOp::getCost(const CostSizes &sizes) { return {}; }

llvm::StringRef RopeOp::getOpSpec() { return "rope"; }
std::string RopeOp::getFormula() { return ""; }
Cost RopeOp::getCost(const CostSizes &sizes) { return {}; }

llvm::StringRef RopeStdOp::getOpSpec() { return "ropeStd"; }
std::string RopeStdOp::getFormula() { return ""; }
Cost RopeStdOp::getCost(const CostSizes &sizes) { return {}; }

llvm::StringRef GqaOp::getOpSpec() { return "slidingGQA"; }
std::string GqaOp::getFormula() { return ""; }
Cost GqaOp::getCost(const CostSizes &sizes) { return {}; }

llvm::StringRef SigmoidGateOp::getOpSpec() { return "sigmoidGate"; }
std::string SigmoidGateOp::getFormula() { return ""; }
Cost SigmoidGateOp::getCost(const CostSizes &sizes) { return {}; }

llvm::StringRef LinearOp::getOpSpec() { return "linear"; }
std::string LinearOp::getFormula() { return ""; }
Cost LinearOp::getCost(const CostSizes &sizes) { return {}; }

llvm::StringRef GeluMulOp::getOpSpec() { return "geluMul"; }
std::string GeluMulOp::getFormula() { return ""; }
Cost GeluMulOp::getCost(const CostSizes &sizes) { return {}; }

llvm::StringRef SiluMulOp::getOpSpec() { return "siluMul"; }
std::string SiluMulOp::getFormula() { return ""; }
Cost SiluMulOp::getCost(const CostSizes &sizes) { return {}; }

llvm::StringRef ResidualOp::getOpSpec() { return "residual"; }
std::string ResidualOp::getFormula() { return ""; }
Cost ResidualOp::getCost(const CostSizes &sizes) { return {}; }

