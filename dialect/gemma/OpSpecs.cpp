// Op Spec names, formulas and constants of the nodes, as the spec page's node tables print them.
#include "dialect/gemma/Gemma.h"
#include "dialect/gemma/Verify.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace gemma::ir;

/// The shortest decimal that reads back as `value`, 1e-06 and 10000 like the tables.
static std::string number(double value) {
  if (std::abs(value) < 1e16 && value == std::trunc(value))
    return std::to_string(static_cast<int64_t>(value));
  char text[32];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value)
      break;
  }
  return text;
}
static std::string number(const APFloat &value) { return number(value.convertToDouble()); }
static std::string number(uint64_t value) { return std::to_string(static_cast<int64_t>(value)); }

static std::string boolean(bool value) { return value ? "True" : "False"; }

static std::string columns(Value x) { return std::to_string(columnsOf(x.getType())); }

//===----------------------------------------------------------------------===//
// embed, lm_head
//===----------------------------------------------------------------------===//

/// `√H` where the multiplier is that root, else the number.
static std::string multiplier(EmbedOp op) {
  double mul = op.getMul().convertToDouble();
  auto hidden = static_cast<double>(columnsOf(op.getY().getType()));
  return std::abs(mul - std::sqrt(hidden)) <= 1e-12 * mul ? "√" + columns(op.getY()) : number(mul);
}

StringRef EmbedOp::getOpSpec() { return "embed"; }
std::string EmbedOp::getFormula() { return "y[t] = " + multiplier(*this) + " · w[tokens[t]]"; }
SpecConstants EmbedOp::getConstants() {
  return {{"mul", multiplier(*this)}, {"norm", boolean(false)}};
}

/// True if an embed of the same function reads the head's weight.
static bool isTied(LmHeadOp op) {
  Operation *function = op->getParentWithTrait<OpTrait::IsIsolatedFromAbove>();
  return function && function
                         ->walk([&](EmbedOp embed) {
                           return embed.getWeight() == op.getWeight() ? WalkResult::interrupt()
                                                                      : WalkResult::advance();
                         })
                         .wasInterrupted();
}

StringRef LmHeadOp::getOpSpec() { return "lmHead"; }
std::string LmHeadOp::getFormula() {
  std::string product = getMul().isExactlyValue(1.0) ? "x wᵀ" : number(getMul()) + " · x wᵀ";
  std::optional<APFloat> softcap = getSoftcap();
  if (!softcap)
    return "logits = " + product;
  std::string cap = number(*softcap);
  return llvm::formatv("z = {0}, logits = {1} · tanh(z / {1})", product, cap);
}
SpecConstants LmHeadOp::getConstants() {
  SpecConstants constants = {{"mul", number(getMul())}};
  if (std::optional<APFloat> softcap = getSoftcap())
    constants.emplace_back("softcap", number(*softcap));
  constants.emplace_back("tied", boolean(isTied(*this)));
  return constants;
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

static std::string normFormula(Value x, StringRef formula) {
  bool perHead = cast<RankedTensorType>(x.getType()).getRank() == 3;
  return (perHead ? "per head: " : "") + formula.str();
}
static SpecConstants normConstants(Value x, const APFloat &eps) {
  bool perHead = cast<RankedTensorType>(x.getType()).getRank() == 3;
  return {{perHead ? "D" : "H", columns(x)}, {"eps", number(eps)}};
}

StringRef RmsNormOp::getOpSpec() { return "rmsnorm"; }
std::string RmsNormOp::getFormula() {
  return normFormula(getX(), "y[t,i] = x[t,i] / √(Σⱼ x[t,j]² / H + ε) · w[i]");
}
SpecConstants RmsNormOp::getConstants() { return normConstants(getX(), getEps()); }

StringRef RmsNormOffsetOp::getOpSpec() { return "rmsnormOffset"; }
std::string RmsNormOffsetOp::getFormula() {
  return normFormula(getX(), "y[t,i] = x[t,i] / √(Σⱼ x[t,j]² / H + ε) · (1 + w[i])");
}
SpecConstants RmsNormOffsetOp::getConstants() { return normConstants(getX(), getEps()); }

StringRef RmsNormUnitOp::getOpSpec() { return "rmsnormUnit"; }
std::string RmsNormUnitOp::getFormula() {
  return normFormula(getX(), "y[t,i] = x[t,i] / √(Σⱼ x[t,j]² / H + ε)");
}
SpecConstants RmsNormUnitOp::getConstants() { return normConstants(getX(), getEps()); }

StringRef L2NormOp::getOpSpec() { return "l2norm"; }
std::string L2NormOp::getFormula() {
  return normFormula(getX(), "y[t,i] = x[t,i] / √(Σⱼ x[t,j]² + ε)");
}
SpecConstants L2NormOp::getConstants() { return normConstants(getX(), getEps()); }

StringRef RmsNormGatedOp::getOpSpec() { return "rmsnormGated"; }
std::string RmsNormGatedOp::getFormula() {
  return normFormula(getX(), "y[t,i] = w[i] · (x[t,i] / √(Σⱼ x[t,j]² / H + ε)) · silu(z[t,i])");
}
SpecConstants RmsNormGatedOp::getConstants() { return normConstants(getX(), getEps()); }

//===----------------------------------------------------------------------===//
// Position
//===----------------------------------------------------------------------===//

static std::string ropeFormula(uint64_t rot, uint64_t denom, uint64_t active) {
  return llvm::formatv("rotate pairs (i, i + {0}) by pos · θ^(-2i/{1}), i < {2}; "
                       "coordinates ≥ {3} unchanged",
                       rot / 2, denom, active, rot);
}

StringRef RopeOp::getOpSpec() { return "rope"; }
std::string RopeOp::getFormula() { return ropeFormula(getRot(), getDenom(), getActive()); }
SpecConstants RopeOp::getConstants() {
  return {{"D", columns(getX())},
          {"active", number(getActive())},
          {"denom", number(getDenom())},
          {"rot", number(getRot())},
          {"theta", number(getTheta())}};
}

StringRef RopeStdOp::getOpSpec() { return "ropeStd"; }
std::string RopeStdOp::getFormula() { return ropeFormula(getRot(), getRot(), getRot() / 2); }
SpecConstants RopeStdOp::getConstants() {
  return {{"D", columns(getX())}, {"rot", number(getRot())}, {"theta", number(getTheta())}};
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

StringRef GqaOp::getOpSpec() { return getWindow() ? "slidingDecodeGQA" : "decodeGQA"; }
std::string GqaOp::getFormula() {
  auto group = dimOf(getQ().getType(), 1) / static_cast<int64_t>(getKvHeads());
  std::string formula =
      llvm::formatv("o[b,h] = Σ_{{s < seq_lens[b]} softmax_s({0} · ⟨q[b,h], k[b,s,h / {1}]⟩) · "
                    "v[b,s,h / {1}]",
                    number(getScale()), group);
  if (std::optional<uint64_t> window = getWindow())
    formula += " over the last " + number(*window) + " positions";
  return formula;
}
SpecConstants GqaOp::getConstants() {
  SpecConstants constants = {{"D", columns(getQ())},
                             {"heads", std::to_string(dimOf(getQ().getType(), 1))},
                             {"kv_heads", number(getKvHeads())},
                             {"scale", number(getScale())}};
  if (std::optional<uint64_t> window = getWindow())
    constants.emplace_back("window", number(*window));
  return constants;
}

StringRef SigmoidGateOp::getOpSpec() { return "sigmoidGate"; }
std::string SigmoidGateOp::getFormula() { return "y[t,i] = x[t,i] · σ(gate[t,i])"; }
SpecConstants SigmoidGateOp::getConstants() { return {{"N", columns(getX())}}; }

//===----------------------------------------------------------------------===//
// Feed forward
//===----------------------------------------------------------------------===//

StringRef LinearOp::getOpSpec() { return "linear"; }
std::string LinearOp::getFormula() { return "y[t,n] = Σₖ x[t,k] · w[n,k]"; }
SpecConstants LinearOp::getConstants() { return {{"K", columns(getX())}, {"N", columns(getY())}}; }

StringRef GeluMulOp::getOpSpec() { return "geluMul"; }
std::string GeluMulOp::getFormula() {
  return "y[t,i] = gelu_tanh(gate_up[t,i]) · gate_up[t," + columns(getY()) + "+i]";
}
SpecConstants GeluMulOp::getConstants() {
  return {{"I", columns(getY())}, {"act", "gelu_pytorch_tanh"}};
}

StringRef SiluMulOp::getOpSpec() { return "siluMul"; }
std::string SiluMulOp::getFormula() {
  return "y[t,i] = silu(gate_up[t,i]) · gate_up[t," + columns(getY()) + "+i]";
}
SpecConstants SiluMulOp::getConstants() { return {{"I", columns(getY())}, {"act", "silu"}}; }

StringRef ResidualOp::getOpSpec() { return "residual"; }
std::string ResidualOp::getFormula() {
  if (getLayerScalar())
    return "y = s · (x + " + number(getR()) + " · h)";
  return getR().isExactlyValue(1.0) ? "y = x + h" : "y = x + " + number(getR()) + " · h";
}
SpecConstants ResidualOp::getConstants() {
  return {{"H", columns(getX())},
          {"layer_scalar", boolean(getLayerScalar().has_value())},
          {"r", number(getR())}};
}
