// Integer arithmetic and bits. add, sub, mul, mad, abs, neg, min and max of floats start here too
// and go on in the float family.
#include "codegen/emu/Translator.h"

#include "llvm/IR/Intrinsics.h"

namespace gemma::codegen::ptx {

void Translator::add(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 3))
    return;
  if (type.isFloat())
    return floatOp(i, type, 2, floatMode(m), [&](auto x) { return b.CreateFAdd(x[0], x[1]); });
  Value *x = read(i.operands[1], type), *y = read(i.operands[2], type);
  bool saturating = m.take("sat");
  write(i.operands[0],
        saturating ? b.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, x, y) : b.CreateAdd(x, y));
}

void Translator::sub(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 3))
    return;
  if (type.isFloat())
    return floatOp(i, type, 2, floatMode(m), [&](auto x) { return b.CreateFSub(x[0], x[1]); });
  Value *x = read(i.operands[1], type), *y = read(i.operands[2], type);
  bool saturating = m.take("sat");
  write(i.operands[0],
        saturating ? b.CreateBinaryIntrinsic(llvm::Intrinsic::ssub_sat, x, y) : b.CreateSub(x, y));
}

/// The product of two integers in twice their width.
static llvm::Value *wideProduct(llvm::IRBuilder<> &b, Type type, llvm::Value *x, llvm::Value *y) {
  llvm::Type *wide = b.getIntNTy(type.bits * 2);
  bool isSigned = type.isSigned();
  return b.CreateMul(b.CreateIntCast(x, wide, isSigned), b.CreateIntCast(y, wide, isSigned));
}

void Translator::mul(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 3))
    return;
  if (type.isFloat())
    return floatOp(i, type, 2, floatMode(m), [&](auto x) { return b.CreateFMul(x[0], x[1]); });
  Value *x = read(i.operands[1], type), *y = read(i.operands[2], type);
  std::string part = m.takeAny({"lo", "hi", "wide"});
  if (part == "lo")
    return write(i.operands[0], b.CreateMul(x, y));
  if (part.empty())
    return problem("expected .lo, .hi or .wide of " + i.text());
  Value *product = wideProduct(b, type, x, y);
  if (part == "hi")
    product = b.CreateTrunc(b.CreateLShr(product, type.bits), intType(type.bits));
  write(i.operands[0], product);
}

void Translator::mad(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (type.isFloat()) {
    // mad.f32 on sm_20 and later is a fused multiply-add.
    Modifiers copy = m;
    if (!operands(i, 4))
      return;
    return floatOp(i, type, 3, floatMode(m), [&](auto x) {
      return b.CreateIntrinsic(llvm::Intrinsic::fma, {x[0]->getType()}, {x[0], x[1], x[2]});
    });
  }
  if (!operands(i, 4))
    return;
  Value *x = read(i.operands[1], type), *y = read(i.operands[2], type);
  std::string part = m.takeAny({"lo", "hi", "wide"});
  if (part.empty())
    return problem("expected .lo, .hi or .wide of " + i.text());
  if (part == "lo")
    return write(i.operands[0], b.CreateAdd(b.CreateMul(x, y), read(i.operands[3], type)));
  Value *product = wideProduct(b, type, x, y);
  if (part == "hi")
    return write(i.operands[0],
                 b.CreateAdd(b.CreateTrunc(b.CreateLShr(product, type.bits), intType(type.bits)),
                             read(i.operands[3], type)));
  write(i.operands[0], b.CreateAdd(product, readBits(i.operands[3], type.bits * 2)));
}

void Translator::mul24(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  bool adds = i.opcode == "mad24";
  if (!operands(i, adds ? 4 : 3))
    return;
  auto low24 = [&](Value *x) {
    x = b.CreateShl(x, 8);
    return type.isSigned() ? b.CreateAShr(x, 8) : b.CreateLShr(x, 8);
  };
  Value *x = low24(read(i.operands[1], type)), *y = low24(read(i.operands[2], type));
  Value *product = wideProduct(b, type, x, y);
  std::string part = m.takeAny({"lo", "hi"});
  if (part.empty())
    return problem("expected .lo or .hi of " + i.text());
  // .hi: bits 47..16 of the 48-bit product.
  Value *value =
      b.CreateTrunc(part == "hi" ? b.CreateLShr(product, 16) : product, intType(type.bits));
  write(i.operands[0], adds ? b.CreateAdd(value, read(i.operands[3], type)) : value);
}

void Translator::div(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 3))
    return;
  if (type.isFloat()) {
    m.takeAny({"approx", "full"});
    return floatOp(i, type, 2, floatMode(m), [&](auto x) { return b.CreateFDiv(x[0], x[1]); });
  }
  Value *x = read(i.operands[1], type), *y = read(i.operands[2], type);
  // The host traps where PTX leaves the result open: divide by zero, and the lowest number by -1.
  Value *zero = b.CreateICmpEQ(y, b.getIntN(type.bits, 0));
  if (!type.isSigned()) {
    Value *quotient = b.CreateUDiv(x, b.CreateSelect(zero, b.getIntN(type.bits, 1), y));
    return write(i.operands[0],
                 b.CreateSelect(zero, llvm::Constant::getAllOnesValue(x->getType()), quotient));
  }
  Value *minusOne = b.CreateICmpEQ(y, llvm::Constant::getAllOnesValue(y->getType()));
  Value *safe = b.CreateSelect(b.CreateOr(zero, minusOne), b.getIntN(type.bits, 1), y);
  Value *quotient = b.CreateSelect(minusOne, b.CreateNeg(x), b.CreateSDiv(x, safe));
  write(i.operands[0],
        b.CreateSelect(zero, llvm::Constant::getAllOnesValue(x->getType()), quotient));
}

void Translator::rem(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 3))
    return;
  Value *x = read(i.operands[1], type), *y = read(i.operands[2], type);
  Value *open = b.CreateICmpEQ(y, b.getIntN(type.bits, 0));
  if (type.isSigned())
    open = b.CreateOr(open, b.CreateICmpEQ(y, llvm::Constant::getAllOnesValue(y->getType())));
  Value *safe = b.CreateSelect(open, b.getIntN(type.bits, 1), y);
  write(i.operands[0], type.isSigned() ? b.CreateSRem(x, safe) : b.CreateURem(x, safe));
}

void Translator::abs(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 2))
    return;
  if (type.isFloat())
    return floatOp(i, type, 1, floatMode(m),
                   [&](auto x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x[0]); });
  write(i.operands[0],
        b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, read(i.operands[1], type), b.getFalse()));
}

void Translator::neg(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 2))
    return;
  if (type.isFloat())
    return floatOp(i, type, 1, floatMode(m), [&](auto x) { return b.CreateFNeg(x[0]); });
  write(i.operands[0], b.CreateNeg(read(i.operands[1], type)));
}

void Translator::minMax(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  bool isMax = i.opcode == "max";
  if (!operands(i, 3))
    return;
  if (type.isFloat()) {
    // Without .NaN a NaN operand loses; with it, it wins. -0 is less than +0 in both.
    bool propagate = m.take("NaN");
    llvm::Intrinsic::ID id =
        propagate ? (isMax ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum)
                  : (isMax ? llvm::Intrinsic::maximumnum : llvm::Intrinsic::minimumnum);
    return floatOp(i, type, 2, floatMode(m),
                   [&](auto x) { return b.CreateBinaryIntrinsic(id, x[0], x[1]); });
  }
  llvm::Intrinsic::ID id = type.isSigned()
                               ? (isMax ? llvm::Intrinsic::smax : llvm::Intrinsic::smin)
                               : (isMax ? llvm::Intrinsic::umax : llvm::Intrinsic::umin);
  write(i.operands[0],
        b.CreateBinaryIntrinsic(id, read(i.operands[1], type), read(i.operands[2], type)));
}

void Translator::logic(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  bool unary = i.opcode == "not" || i.opcode == "cnot";
  if (!operands(i, unary ? 2 : 3))
    return;
  auto operand = [&](unsigned k) {
    return type.cls == Type::Predicate ? readPredicate(i.operands[k]) : read(i.operands[k], type);
  };
  Value *x = operand(1);
  if (i.opcode == "not")
    return write(i.operands[0], b.CreateNot(x));
  if (i.opcode == "cnot")
    return write(i.operands[0], b.CreateICmpEQ(x, llvm::ConstantInt::get(x->getType(), 0)));
  Value *y = operand(2);
  write(i.operands[0], i.opcode == "and"  ? b.CreateAnd(x, y)
                       : i.opcode == "or" ? b.CreateOr(x, y)
                                          : b.CreateXor(x, y));
}

void Translator::shift(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 3))
    return;
  Value *x = read(i.operands[1], type);
  Value *amount = readBits(i.operands[2], 32);
  // Amounts of the width or more shift everything out; LLVM's shifts leave that open.
  Value *inside = b.CreateICmpULT(amount, b.getInt32(type.bits));
  bool arithmetic = i.opcode == "shr" && type.isSigned();
  Value *limit = b.getInt32(arithmetic ? type.bits - 1 : 0);
  Value *safe = b.CreateZExtOrTrunc(b.CreateSelect(inside, amount, limit), x->getType());
  if (arithmetic)
    return write(i.operands[0], b.CreateAShr(x, safe));
  Value *shifted = i.opcode == "shl" ? b.CreateShl(x, safe) : b.CreateLShr(x, safe);
  write(i.operands[0], b.CreateSelect(inside, shifted, llvm::ConstantInt::get(x->getType(), 0)));
}

void Translator::funnelShift(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  bool left = m.take("l");
  if (!left && !m.take("r"))
    return problem("expected .l or .r of " + i.text());
  std::string mode = m.takeAny({"wrap", "clamp"});
  if (mode.empty())
    return problem("expected .wrap or .clamp of " + i.text());
  if (!operands(i, 4))
    return;
  Value *low = read(i.operands[1], type), *high = read(i.operands[2], type);
  Value *amount = readBits(i.operands[3], 32);
  amount = mode == "wrap" ? b.CreateAnd(amount, 31)
                          : b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, amount, b.getInt32(32));
  Value *both = b.CreateOr(b.CreateShl(b.CreateZExt(high, b.getInt64Ty()), 32),
                           b.CreateZExt(low, b.getInt64Ty()));
  Value *wide = b.CreateZExt(amount, b.getInt64Ty());
  Value *value = left ? b.CreateLShr(b.CreateShl(both, wide), 32) : b.CreateLShr(both, wide);
  write(i.operands[0], b.CreateTrunc(value, b.getInt32Ty()));
}

void Translator::lop3(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 5))
    return;
  if (i.operands[4].kind != Operand::Integer)
    return problem("expected a number as the table of lop3");
  uint64_t table = i.operands[4].bits & 0xff;
  Value *x[3];
  for (unsigned k = 0; k < 3; ++k)
    x[k] = read(i.operands[k + 1], type);
  // Bit (a << 2 | b << 1 | c) of the table is the result for these bits.
  Value *value = llvm::ConstantInt::get(x[0]->getType(), 0);
  for (unsigned row = 0; row < 8; ++row) {
    if (!(table >> row & 1))
      continue;
    Value *term = nullptr;
    for (unsigned k = 0; k < 3; ++k) {
      Value *factor = row >> (2 - k) & 1 ? x[k] : b.CreateNot(x[k]);
      term = term ? b.CreateAnd(term, factor) : factor;
    }
    value = b.CreateOr(value, term);
  }
  write(i.operands[0], value);
}

void Translator::bfe(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 4))
    return;
  Value *x = read(i.operands[1], type);
  llvm::Type *wide = intType(128);
  // In 128 bits every position and length of 0..255 can be shifted by (positions above are cut).
  auto small = [&](const Operand &operand) {
    Value *value = b.CreateAnd(readBits(operand, 32), 255);
    return b.CreateZExt(
        b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, value, b.getInt32(type.bits)), wide);
  };
  Value *position = small(i.operands[2]), *length = small(i.operands[3]);
  Value *extended = b.CreateIntCast(x, wide, type.isSigned());
  Value *moved =
      type.isSigned() ? b.CreateAShr(extended, position) : b.CreateLShr(extended, position);
  // Keep `length` bits: shift up to the top and back, with or without the sign. A field of no bits
  // is 0.
  Value *up = b.CreateSub(llvm::ConstantInt::get(wide, 128), length);
  Value *none = b.CreateICmpEQ(length, llvm::ConstantInt::get(wide, 0));
  up = b.CreateSelect(none, llvm::ConstantInt::get(wide, 0), up);
  Value *field = b.CreateShl(moved, up);
  field = type.isSigned() ? b.CreateAShr(field, up) : b.CreateLShr(field, up);
  field = b.CreateSelect(none, llvm::ConstantInt::get(wide, 0), field);
  write(i.operands[0], b.CreateTrunc(field, x->getType()));
}

void Translator::bfi(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 5))
    return;
  llvm::Type *wide = intType(128);
  Value *field = b.CreateZExt(read(i.operands[1], type), wide);
  Value *base = b.CreateZExt(read(i.operands[2], type), wide);
  auto small = [&](const Operand &operand) {
    Value *value = b.CreateAnd(readBits(operand, 32), 255);
    return b.CreateZExt(
        b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, value, b.getInt32(type.bits)), wide);
  };
  Value *position = small(i.operands[3]), *length = small(i.operands[4]);
  Value *one = llvm::ConstantInt::get(wide, 1);
  Value *mask = b.CreateShl(b.CreateSub(b.CreateShl(one, length), one), position);
  Value *merged = b.CreateOr(b.CreateAnd(base, b.CreateNot(mask)),
                             b.CreateAnd(b.CreateShl(field, position), mask));
  write(i.operands[0], b.CreateTrunc(merged, intType(type.bits)));
}

void Translator::bitCount(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 2))
    return;
  Value *x = read(i.operands[1], type);
  llvm::Type *i32 = b.getInt32Ty();
  if (i.opcode == "brev")
    return write(i.operands[0], b.CreateUnaryIntrinsic(llvm::Intrinsic::bitreverse, x));
  if (i.opcode == "popc")
    return write(i.operands[0],
                 b.CreateZExtOrTrunc(b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, x), i32));
  if (i.opcode == "bfind" && type.isSigned())
    x = b.CreateSelect(b.CreateICmpSLT(x, llvm::ConstantInt::get(x->getType(), 0)), b.CreateNot(x),
                       x);
  Value *zeros =
      b.CreateZExtOrTrunc(b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, x, b.getFalse()), i32);
  if (i.opcode == "clz")
    return write(i.operands[0], zeros);
  // The position of the highest one (or, with .shiftamt, its distance from the top); -1 if none.
  Value *none = b.CreateICmpEQ(zeros, b.getInt32(type.bits));
  Value *value = m.take("shiftamt") ? zeros : b.CreateSub(b.getInt32(type.bits - 1), zeros);
  write(i.operands[0], b.CreateSelect(none, b.getInt32(~0u), value));
}

void Translator::prmt(const Instruction &i, Modifiers &m) {
  Type type = needType(m);
  if (!operands(i, 4))
    return;
  Value *x = b.CreateZExt(read(i.operands[1], type), b.getInt64Ty());
  Value *y = b.CreateZExt(read(i.operands[2], type), b.getInt64Ty());
  Value *bytes = b.CreateOr(x, b.CreateShl(y, 32));
  Value *selector = read(i.operands[3], type);
  Value *value = b.getInt32(0);
  for (unsigned k = 0; k < 4; ++k) {
    // Three bits choose one of eight bytes; the fourth asks for its sign eight times.
    Value *choice = b.CreateAnd(b.CreateLShr(selector, 4 * k), 15);
    Value *shift = b.CreateZExt(b.CreateShl(b.CreateAnd(choice, 7), 3), b.getInt64Ty());
    Value *byte = b.CreateTrunc(b.CreateLShr(bytes, shift), b.getInt8Ty());
    Value *sign = b.CreateAShr(byte, 7);
    Value *wantsSign = b.CreateICmpUGE(choice, b.getInt32(8));
    byte = b.CreateZExt(b.CreateSelect(wantsSign, sign, byte), b.getInt32Ty());
    value = b.CreateOr(value, b.CreateShl(byte, 8 * k));
  }
  write(i.operands[0], value);
}

void Translator::dotProduct(const Instruction &i, Modifiers &m) {
  Type first = needType(m), second = needType(m);
  if (!operands(i, 4))
    return;
  Value *x = read(i.operands[1], first), *y = read(i.operands[2], second);
  Value *sum = readBits(i.operands[3], 32);
  for (unsigned k = 0; k < 4; ++k) {
    auto byte = [&](Value *value, Type type) {
      Value *part = b.CreateTrunc(b.CreateLShr(value, 8 * k), b.getInt8Ty());
      return b.CreateIntCast(part, b.getInt32Ty(), type.isSigned());
    };
    sum = b.CreateAdd(sum, b.CreateMul(byte(x, first), byte(y, second)));
  }
  write(i.operands[0], sum);
}

} // namespace gemma::codegen::ptx
