// Provenance hashes: float instructions call EmuTable::provenance in place of computing. Whatever
// only chooses among bits or moves them (neg, abs, min, max, copysign, comparisons, selections) is
// as always, for the hash of a number is a number of the same sign.
#include "codegen/emu/Translator.h"

#include "runtime/abi/EmuAbi.h"

#include <algorithm>

namespace gemma::codegen::ptx {

llvm::Value *Translator::provenanceOf(uint32_t op, llvm::ArrayRef<Value *> operands) {
  std::vector<Value *> arguments = {b.getInt32(op)};
  for (Value *operand : operands)
    arguments.push_back(b.CreateBitCast(operand, b.getInt32Ty()));
  arguments.resize(4, b.getInt32(0));
  return callPlain(offsetof(EmuTable, provenance), b.getInt32Ty(), arguments);
}

Translator::FloatOp Translator::hashed(const Instruction &i, Type type, FloatMode &mode,
                                       const FloatOp &op) {
  static const std::map<std::string_view, uint32_t> kinds = {
      {"add", EmuProvenanceAdd},  {"sub", EmuProvenanceAdd},   {"mul", EmuProvenanceMul},
      {"div", EmuProvenanceDiv},  {"rcp", EmuProvenanceDiv},   {"fma", EmuProvenanceFma},
      {"mad", EmuProvenanceFma},  {"sqrt", EmuProvenanceSqrt}, {"rsqrt", EmuProvenanceRsqrt},
      {"ex2", EmuProvenanceExp2}, {"lg2", EmuProvenanceLog2},  {"tanh", EmuProvenanceTanh},
      {"sin", EmuProvenanceSin},  {"cos", EmuProvenanceCos}};
  auto kind = kinds.find(i.opcode);
  if (!provenance || kind == kinds.end())
    return op;
  bool narrow = type.cls == Type::BFloat, single = type.cls == Type::Float && type.bits == 32;
  if ((!narrow && !(single && type.lanes == 1)) || mode.saturate || mode.relu) {
    problem("no provenance hash of " + i.text());
    return op;
  }
  mode.exact = false;
  auto says = [&](std::string_view word) {
    return std::find(i.modifiers.begin(), i.modifiers.end(), word) != i.modifiers.end();
  };
  uint32_t code = kind->second | (says("approx") ? EmuProvenanceApprox : 0) |
                  (says("full") ? EmuProvenanceFull : 0);
  std::string opcode = i.opcode;
  return [this, code, opcode](llvm::ArrayRef<Value *> x) -> Value * {
    std::vector<Value *> values(x);
    if (opcode == "sub")
      values[1] = b.CreateFNeg(values[1]);
    if (opcode == "rcp")
      values.insert(values.begin(), llvm::ConstantFP::get(b.getFloatTy(), 1.0));
    return b.CreateBitCast(provenanceOf(code, values), b.getFloatTy());
  };
}

void Translator::checkHashed(Type to, Type from) {
  auto hasHashes = [](Type type) {
    return type.cls == Type::BFloat || (type.bits == 32 && type.lanes == 1);
  };
  if (from.isFloat() && (!to.isFloat() || !hasHashes(from) || !hasHashes(to)))
    problem("provenance hashes are f32 or bf16 and become nothing else");
}

} // namespace gemma::codegen::ptx
