// Floating point. f32 and f64 are the host's; f16 and bf16 are computed wider and rounded once.
//
// add and mul of 16-bit types in f32 and then rounded are exact (24 >= 2*11 + 2 bits); a fused
// multiply-add is not, so it is computed in f64 and rounded to odd on its way through f32.
#include "codegen/emu/Translator.h"

#include "runtime/abi/EmuAbi.h"

#include "llvm/IR/Intrinsics.h"

namespace gemma::codegen::ptx {

Translator::FloatMode Translator::floatMode(Modifiers &m) {
  FloatMode mode;
  m.take("rn");
  mode.ftz = m.take("ftz");
  mode.saturate = m.take("sat");
  mode.relu = m.take("relu");
  return mode;
}

llvm::Value *Translator::flush(Value *x) {
  Value *tiny = b.CreateFCmpOLT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x),
                                llvm::ConstantFP::get(x->getType(), 0x1p-126));
  Value *zero = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign,
                                        llvm::ConstantFP::get(x->getType(), 0.0), x);
  return b.CreateSelect(tiny, zero, x);
}

/// To [0, 1]; NaN becomes 0.
llvm::Value *Translator::saturate(Value *x) {
  Value *zero = llvm::ConstantFP::get(x->getType(), 0.0);
  Value *one = llvm::ConstantFP::get(x->getType(), 1.0);
  Value *low = b.CreateSelect(b.CreateFCmpOGT(x, zero), x, zero);
  return b.CreateSelect(b.CreateFCmpOLT(low, one), low, one);
}

llvm::Value *Translator::widen(Value *lane, Type type) {
  if (type.cls == Type::Float)
    return b.CreateFPExt(b.CreateBitCast(lane, b.getHalfTy()), b.getFloatTy());
  return b.CreateBitCast(b.CreateShl(b.CreateZExt(lane, b.getInt32Ty()), 16), b.getFloatTy());
}

llvm::Value *Translator::toBf16(Value *x) {
  Value *bits = b.CreateBitCast(x, b.getInt32Ty());
  Value *odd = b.CreateAnd(b.CreateLShr(bits, 16), 1);
  Value *rounded = b.CreateLShr(b.CreateAdd(bits, b.CreateAdd(odd, b.getInt32(0x7fff))), 16);
  // PTX has one NaN for narrow results.
  Value *value = b.CreateSelect(b.CreateFCmpUNO(x, x), b.getInt32(0x7fff), rounded);
  return b.CreateTrunc(value, b.getInt16Ty());
}

llvm::Value *Translator::toF16(Value *x) {
  Value *half = b.CreateBitCast(b.CreateFPTrunc(x, b.getHalfTy()), b.getInt16Ty());
  return b.CreateSelect(b.CreateFCmpUNO(x, x), b.getInt16(0x7fff), half);
}

llvm::Value *Translator::roundToOdd(Value *wide) {
  Value *near = b.CreateFPTrunc(wide, b.getFloatTy());
  Value *back = b.CreateFPExt(near, wide->getType());
  Value *bits = b.CreateBitCast(near, b.getInt32Ty());
  // Truncate: one step towards zero if rounding went away from it; then set the last bit.
  auto magnitude = [&](Value *x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); };
  Value *away = b.CreateFCmpOGT(magnitude(back), magnitude(wide));
  Value *truncated = b.CreateSub(bits, b.CreateZExt(away, b.getInt32Ty()));
  Value *inexact = b.CreateFCmpONE(back, wide);
  return b.CreateBitCast(b.CreateSelect(inexact, b.CreateOr(truncated, 1), bits), b.getFloatTy());
}

llvm::Value *Translator::narrow(Value *wide, Type type) {
  if (provenance && type.cls == Type::BFloat && wide->getType()->isFloatTy())
    return b.CreateTrunc(provenanceOf(EmuProvenanceToBf16, {wide}), b.getInt16Ty());
  if (wide->getType()->isDoubleTy())
    wide = roundToOdd(wide);
  return type.cls == Type::Float ? toF16(wide) : toBf16(wide);
}

void Translator::floatOp(const Instruction &i, Type type, unsigned count, FloatMode mode,
                         const FloatOp &compute) {
  if (!operands(i, count + 1))
    return;
  FloatOp op = hashed(i, type, mode, compute);
  std::vector<Value *> values;
  for (unsigned k = 0; k < count; ++k)
    values.push_back(read(i.operands[k + 1], type));
  auto finish = [&](Value *value) {
    if (mode.saturate)
      value = saturate(value);
    if (mode.relu) {
      Value *zero = llvm::ConstantFP::get(value->getType(), 0.0);
      value = b.CreateSelect(b.CreateFCmpOLT(value, zero), zero, value);
    }
    return value;
  };
  if (type.laneBits() > 16) {
    bool flushes = mode.ftz && type.bits == 32;
    if (flushes)
      for (Value *&value : values)
        value = flush(value);
    Value *value = finish(op(values));
    return write(i.operands[0], flushes ? flush(value) : value);
  }
  Value *packed = nullptr;
  for (unsigned lane = 0; lane < type.lanes; ++lane) {
    std::vector<Value *> wide;
    for (Value *value : values) {
      Value *part = b.CreateTrunc(b.CreateLShr(value, 16 * lane), b.getInt16Ty());
      Value *x = widen(part, type);
      wide.push_back(mode.exact ? b.CreateFPExt(x, b.getDoubleTy()) : x);
    }
    Value *part = b.CreateZExt(narrow(finish(op(wide)), type), intType(type.bits));
    part = b.CreateShl(part, 16 * lane);
    packed = packed ? b.CreateOr(packed, part) : part;
  }
  write(i.operands[0], packed);
}

void Translator::fma(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  FloatMode mode = floatMode(m);
  mode.exact = type.laneBits() == 16;
  floatOp(i, type, 3, mode, [&](auto x) {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {x[0]->getType()}, {x[0], x[1], x[2]});
  });
}

llvm::Value *Translator::math(uint32_t function, Value *x) {
  return callPlain(offsetof(EmuTable, math), b.getFloatTy(), {b.getInt32(function), x});
}

void Translator::unaryFloat(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  m.take("approx");
  FloatMode mode = floatMode(m);
  const std::string &name = i.opcode;
  if (name == "sqrt" || name == "rsqrt" || name == "rcp")
    return floatOp(i, type, 1, mode, [&](auto x) -> Value * {
      Value *one = llvm::ConstantFP::get(x[0]->getType(), 1.0);
      if (name == "rcp")
        return b.CreateFDiv(one, x[0]);
      Value *root = b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x[0]);
      return name == "sqrt" ? root : b.CreateFDiv(one, root);
    });
  if (type.bits == 64)
    return problem("no f64 form of " + i.text());
  uint32_t function = name == "ex2"    ? EmuMathExp2
                      : name == "lg2"  ? EmuMathLog2
                      : name == "tanh" ? EmuMathTanh
                      : name == "sin"  ? EmuMathSin
                                       : EmuMathCos;
  floatOp(i, type, 1, mode, [&](auto x) { return math(function, x[0]); });
}

void Translator::copysign(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 3))
    return;
  // PTX: the sign of the first operand, the magnitude of the second.
  Value *x = read(i.operands[1], type), *y = read(i.operands[2], type);
  write(i.operands[0], b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, y, x));
}

void Translator::testp(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  std::string what =
      m.takeAny({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  if (what.empty() || !operands(i, 2))
    return problem("expected a property of " + i.text());
  Value *x = read(i.operands[1], type);
  llvm::FPClassTest test = what == "finite"       ? llvm::fcFinite
                           : what == "infinite"   ? llvm::fcInf
                           : what == "number"     ? llvm::FPClassTest(llvm::fcFinite | llvm::fcInf)
                           : what == "notanumber" ? llvm::fcNan
                           : what == "normal"     ? llvm::fcNormal
                                                  : llvm::fcSubnormal;
  write(i.operands[0], b.createIsFPClass(x, test));
}

llvm::Value *Translator::floatCompare(const std::string &relation, Value *x, Value *y) {
  static const std::map<std::string, llvm::CmpInst::Predicate> predicates = {
      {"eq", llvm::CmpInst::FCMP_OEQ},  {"ne", llvm::CmpInst::FCMP_ONE},
      {"lt", llvm::CmpInst::FCMP_OLT},  {"le", llvm::CmpInst::FCMP_OLE},
      {"gt", llvm::CmpInst::FCMP_OGT},  {"ge", llvm::CmpInst::FCMP_OGE},
      {"equ", llvm::CmpInst::FCMP_UEQ}, {"neu", llvm::CmpInst::FCMP_UNE},
      {"ltu", llvm::CmpInst::FCMP_ULT}, {"leu", llvm::CmpInst::FCMP_ULE},
      {"gtu", llvm::CmpInst::FCMP_UGT}, {"geu", llvm::CmpInst::FCMP_UGE},
      {"num", llvm::CmpInst::FCMP_ORD}, {"nan", llvm::CmpInst::FCMP_UNO}};
  auto found = predicates.find(relation);
  if (found == predicates.end()) {
    problem("unknown comparison ." + relation + " of floats");
    return poison(b.getInt1Ty());
  }
  return b.CreateFCmp(found->second, x, y);
}

llvm::Value *Translator::compare(const std::string &relation, Type type, Value *x, Value *y) {
  if (type.isFloat()) {
    if (type.lanes != 1) {
      problem("comparison of packed floats is not supported");
      return poison(b.getInt1Ty());
    }
    if (type.bits == 16) {
      x = widen(x, type);
      y = widen(y, type);
    }
    return floatCompare(relation, x, y);
  }
  static const std::map<std::string, std::pair<llvm::CmpInst::Predicate, llvm::CmpInst::Predicate>>
      predicates = {{"eq", {llvm::CmpInst::ICMP_EQ, llvm::CmpInst::ICMP_EQ}},
                    {"ne", {llvm::CmpInst::ICMP_NE, llvm::CmpInst::ICMP_NE}},
                    {"lt", {llvm::CmpInst::ICMP_ULT, llvm::CmpInst::ICMP_SLT}},
                    {"le", {llvm::CmpInst::ICMP_ULE, llvm::CmpInst::ICMP_SLE}},
                    {"gt", {llvm::CmpInst::ICMP_UGT, llvm::CmpInst::ICMP_SGT}},
                    {"ge", {llvm::CmpInst::ICMP_UGE, llvm::CmpInst::ICMP_SGE}},
                    {"lo", {llvm::CmpInst::ICMP_ULT, llvm::CmpInst::ICMP_ULT}},
                    {"ls", {llvm::CmpInst::ICMP_ULE, llvm::CmpInst::ICMP_ULE}},
                    {"hi", {llvm::CmpInst::ICMP_UGT, llvm::CmpInst::ICMP_UGT}},
                    {"hs", {llvm::CmpInst::ICMP_UGE, llvm::CmpInst::ICMP_UGE}}};
  auto found = predicates.find(relation);
  if (found == predicates.end()) {
    problem("unknown comparison ." + relation + " of integers");
    return poison(b.getInt1Ty());
  }
  return b.CreateICmp(type.isSigned() ? found->second.second : found->second.first, x, y);
}

} // namespace gemma::codegen::ptx
