// Comparison, selection, movement between registers, conversion between types.
#include "codegen/emu/Translator.h"

#include "llvm/IR/Intrinsics.h"

namespace gemma::codegen::ptx {

/// Takes the relation: the first modifier of setp and set.
static std::string takeRelation(Modifiers &m) {
  return m.takeAny({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu",
                    "leu", "gtu", "geu", "num", "nan"});
}

void Translator::combinePredicates(const Instruction &i, Value *holds, const std::string &logic) {
  Value *other = logic.empty() ? nullptr : readPredicate(i.operands[3]);
  auto combine = [&](Value *x) {
    if (logic == "and")
      return b.CreateAnd(x, other);
    if (logic == "or")
      return b.CreateOr(x, other);
    if (logic == "xor")
      return b.CreateXor(x, other);
    return x;
  };
  const Operand &target = i.operands[0];
  if (target.kind != Operand::Pair)
    return write(target, combine(holds));
  Value *opposite = combine(b.CreateNot(holds));
  write(target.elements[0], combine(holds));
  write(target.elements[1], opposite);
}

void Translator::setp(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  std::string relation = takeRelation(m);
  std::string logic = m.takeAny({"and", "or", "xor"});
  bool ftz = m.take("ftz");
  if (!operands(i, logic.empty() ? 3 : 4))
    return;
  Value *x = read(i.operands[1], type), *y = read(i.operands[2], type);
  if (ftz && type.bits == 32) {
    x = flush(x);
    y = flush(y);
  }
  combinePredicates(i, compare(relation, type, x, y), logic);
}

void Translator::set(const Instruction &i, Modifiers &m) {
  std::string relation = takeRelation(m);
  std::string logic = m.takeAny({"and", "or", "xor"});
  m.take("ftz");
  Type result = needType(m), type = needType(m);
  if (!operands(i, logic.empty() ? 3 : 4))
    return;
  Value *holds = compare(relation, type, read(i.operands[1], type), read(i.operands[2], type));
  if (logic == "and")
    holds = b.CreateAnd(holds, readPredicate(i.operands[3]));
  else if (logic == "or")
    holds = b.CreateOr(holds, readPredicate(i.operands[3]));
  else if (logic == "xor")
    holds = b.CreateXor(holds, readPredicate(i.operands[3]));
  if (result.isFloat() && result.bits != 32)
    return problem("set with a result other than 32 bits is not supported");
  write(i.operands[0],
        b.CreateSelect(holds, b.getInt32(result.isFloat() ? 0x3f800000u : ~0u), b.getInt32(0)));
}

void Translator::selp(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 4))
    return;
  write(i.operands[0], b.CreateSelect(readPredicate(i.operands[3]), read(i.operands[1], type),
                                      read(i.operands[2], type)));
}

void Translator::slct(const Instruction &i, Modifiers &m) {
  m.take("ftz");
  Type type = needType(m), condition = needType(m);
  if (!operands(i, 4))
    return;
  Value *c = read(i.operands[3], condition);
  Value *holds = condition.isFloat() ? b.CreateFCmpOGE(c, llvm::ConstantFP::get(c->getType(), 0.0))
                                     : b.CreateICmpSGE(c, llvm::ConstantInt::get(c->getType(), 0));
  write(i.operands[0], b.CreateSelect(holds, read(i.operands[1], type), read(i.operands[2], type)));
}

void Translator::mov(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 2))
    return;
  const Operand &to = i.operands[0], &from = i.operands[1];
  if (type.cls == Type::Predicate)
    return write(to, readPredicate(from));
  if (to.kind == Operand::Vector) {
    unsigned bits = type.bits / unsigned(to.elements.size());
    Value *whole = readBits(from, type.bits);
    for (unsigned k = 0; k < to.elements.size(); ++k)
      write(to.elements[k], b.CreateTrunc(b.CreateLShr(whole, uint64_t(bits) * k), intType(bits)));
    return;
  }
  if (from.kind == Operand::Vector) {
    unsigned bits = type.bits / unsigned(from.elements.size());
    Value *whole = llvm::ConstantInt::get(intType(type.bits), 0);
    for (unsigned k = 0; k < from.elements.size(); ++k)
      whole = b.CreateOr(
          whole, b.CreateShl(b.CreateZExt(readBits(from.elements[k], bits), intType(type.bits)),
                             uint64_t(bits) * k));
    return write(to, whole);
  }
  write(to, readBits(from, type.bits));
}

/// The rounding intrinsic of an integer rounding modifier.
static llvm::Intrinsic::ID integerRounding(const std::string &rounding) {
  return rounding == "rni"   ? llvm::Intrinsic::roundeven
         : rounding == "rmi" ? llvm::Intrinsic::floor
         : rounding == "rpi" ? llvm::Intrinsic::ceil
                             : llvm::Intrinsic::trunc;
}

llvm::Value *Translator::convert(Type to, Type from, Value *value, const std::string &rounding,
                                 bool saturating, bool ftz) {
  bool toInteger = rounding.size() == 3;
  if (from.isFloat() && from.bits == 16)
    value = widen(value, from);
  if (from.isFloat() && from.bits == 32 && ftz)
    value = flush(value);
  if (from.isFloat() && to.isFloat()) {
    if (provenance && (toInteger || saturating))
      problem("a conversion that computes cannot go through provenance hashes");
    if (toInteger)
      value = b.CreateUnaryIntrinsic(integerRounding(rounding), value);
    if (saturating)
      value = saturate(value);
    if (to.bits == 16) {
      // f32 -> 16 bits rounds once; f64 rounds to odd in between.
      if (!rounding.empty() && rounding != "rn" && !toInteger)
        problem("rounding ." + rounding + " of a narrowing conversion is not supported");
      return narrow(value, to);
    }
    if (!rounding.empty() && rounding != "rn" && !toInteger)
      problem("rounding ." + rounding + " of cvt is not supported");
    value = b.CreateFPCast(value, typeOf(to));
    return ftz && to.bits == 32 ? flush(value) : value;
  }
  if (from.isFloat()) {
    if (!toInteger)
      problem("a conversion to integers needs .rni, .rzi, .rmi or .rpi");
    value = b.CreateUnaryIntrinsic(integerRounding(rounding), value);
    // Out of range: the nearest integer of the type; NaN: 0.
    return b.CreateIntrinsic(to.isSigned() ? llvm::Intrinsic::fptosi_sat
                                           : llvm::Intrinsic::fptoui_sat,
                             {intType(to.bits), value->getType()}, {value});
  }
  if (to.isFloat()) {
    if (!rounding.empty() && rounding != "rn")
      problem("rounding ." + rounding + " of an integer is not supported");
    llvm::Type *wide = to.bits == 16 ? b.getDoubleTy() : typeOf(to);
    if (to.bits == 16 && from.bits == 64)
      problem("cvt from 64-bit integers to 16-bit floats is not supported");
    value = from.isSigned() ? b.CreateSIToFP(value, wide) : b.CreateUIToFP(value, wide);
    return to.bits == 16 ? narrow(value, to) : value;
  }
  if (saturating && to.bits <= from.bits) {
    if (from.isSigned() != to.isSigned()) {
      problem("cvt.sat between signed and unsigned integers is not supported");
    } else if (to.isSigned()) {
      auto limit = [&](const llvm::APInt &bound) {
        return llvm::ConstantInt::get(ir.getContext(), bound.sext(from.bits));
      };
      value = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, value,
                                      limit(llvm::APInt::getSignedMaxValue(to.bits)));
      value = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, value,
                                      limit(llvm::APInt::getSignedMinValue(to.bits)));
    } else {
      value = b.CreateBinaryIntrinsic(
          llvm::Intrinsic::umin, value,
          llvm::ConstantInt::get(ir.getContext(),
                                 llvm::APInt::getMaxValue(to.bits).zext(from.bits)));
    }
  }
  return b.CreateIntCast(value, intType(to.bits), from.isSigned());
}

void Translator::cvt(const Instruction &i, Modifiers &m) {
  std::string rounding = m.takeAny({"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi"});
  bool saturating = m.take("sat");
  bool relu = m.take("relu");
  bool ftz = m.take("ftz");
  Type to = needType(m), from = needType(m);
  if (provenance)
    checkHashed(to, from);
  if (to.lanes == 2) {
    // The first source becomes the upper half.
    if (!operands(i, 3) || from != Type{Type::Float, 32, 1} || rounding != "rn")
      return problem("only .rn from two .f32 is supported for packed results: " + i.text());
    Type lane = to;
    lane.bits = 16;
    lane.lanes = 1;
    Value *halves[2];
    for (unsigned k = 0; k < 2; ++k) {
      Value *x = read(i.operands[k + 1], from);
      if (relu)
        x = b.CreateSelect(b.CreateFCmpOLT(x, llvm::ConstantFP::get(x->getType(), 0.0)),
                           llvm::ConstantFP::get(x->getType(), 0.0), x);
      halves[k] = b.CreateZExt(narrow(x, lane), b.getInt32Ty());
    }
    return write(i.operands[0], b.CreateOr(b.CreateShl(halves[0], 16), halves[1]));
  }
  if (!operands(i, 2))
    return;
  Value *value = read(i.operands[1], from);
  if (relu) {
    if (!from.isFloat() || from.bits != 32)
      return problem(".relu of " + i.text() + " is not supported");
    Value *zero = llvm::ConstantFP::get(value->getType(), 0.0);
    value = b.CreateSelect(b.CreateFCmpOLT(value, zero), zero, value);
  }
  value = convert(to, from, value, rounding, saturating, ftz);
  if (to.isSigned())
    writeSigned(i.operands[0], value);
  else
    write(i.operands[0], value);
}

} // namespace gemma::codegen::ptx
