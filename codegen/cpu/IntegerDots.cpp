#include "codegen/cpu/IntegerDots.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace gemma::codegen {

IntegerDots::IntegerDots(KernelBuilder &b, int64_t bits, int64_t actBits)
    : b(b), bits(bits), width(std::min<int64_t>(b.lanes(b.getI32Type()), 16)) {
  using Dot = HostIsa::ByteDot;
  chosen = Form::Pairs;
  if (actBits == 8 && b.target.byteDot == Dot::Quads)
    chosen = Form::Quads;
  else if (actBits == 8 && bits == 4 && b.target.byteDot == Dot::Pairs)
    chosen = Form::Bytes;
}

Value IntegerDots::call(StringRef name, Type result, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(b, result, b.getStringAttr(name), operands).getResult(0);
}

Value IntegerDots::multiplyPairs(Value a, Value c) {
  StringRef name = width == 16  ? "llvm.x86.avx512.pmaddw.d.512"
                   : width == 8 ? "llvm.x86.avx2.pmadd.wd"
                                : "llvm.x86.sse2.pmadd.wd";
  return call(name, b.vec(b.getI32Type(), width), {a, c});
}

SmallVector<IntegerDots::Weights, 2> IntegerDots::unpack(Value bytes) {
  Type i16 = b.getIntegerType(16), i8 = b.getI8Type();
  auto halves = b.vec(i16, 2 * width), whole = b.vec(i8, 4 * width);
  Value words = vector::BitCastOp::create(b, halves, bytes);
  auto shifted = [&](int64_t by) {
    return by ? Value(arith::ShRUIOp::create(b, words, b.integer(halves, by))) : words;
  };
  auto masked = [&](Value value, int64_t mask) {
    return Value(arith::AndIOp::create(b, value, b.integer(halves, mask)));
  };
  if (chosen == Form::Pairs) {
    if (bits == 8)
      return {{masked(words, 0xff), shifted(8)}};
    return {{masked(words, 0xf), masked(shifted(8), 0xf)}, {masked(shifted(4), 0xf), shifted(12)}};
  }
  if (bits == 8)
    return {{bytes}};
  auto nibbles = [&](int64_t by) {
    return Value(vector::BitCastOp::create(b, whole, masked(shifted(by), 0x0f0f)));
  };
  return {{nibbles(0)}, {nibbles(4)}};
}

IntegerDots::Weights IntegerDots::activations(const View &view, Value row, Value column) {
  Type i32 = b.getI32Type(), stored = view.element();
  int64_t each = 32 / stored.getIntOrFloatBitWidth();
  Weights values;
  for (int64_t at = 0; at < 4; at += each) {
    Value loaded = vector::LoadOp::create(b, b.vec(stored, each), view.memory,
                                          ValueRange{row, b.add(column, b.index(at))});
    Value bitsOf = b.extract(vector::BitCastOp::create(b, b.vec(i32, 1), loaded), 0);
    values.push_back(
        vector::BitCastOp::create(b, b.vec(stored, each * width), b.broadcast(bitsOf, width)));
  }
  return values;
}

Value IntegerDots::begin(Value start) {
  if (chosen == Form::Bytes)
    return {};
  return b.broadcast(start, width);
}

Value IntegerDots::add(Value sum, const Weights &weights, const Weights &activations) {
  switch (chosen) {
  case Form::Pairs:
    for (auto [weight, activation] : llvm::zip_equal(weights, activations))
      sum = arith::AddIOp::create(b, sum, multiplyPairs(weight, activation));
    return sum;
  case Form::Quads:
    return call("llvm.x86.avx512.vpdpbusd.512", sum.getType(), {sum, weights[0], activations[0]});
  case Form::Bytes:
    break;
  }
  auto halves = b.vec(b.getIntegerType(16), 2 * width);
  StringRef name = width == 16 ? "llvm.x86.avx512.pmaddubs.w.512" : "llvm.x86.avx2.pmadd.ub.sw";
  Value products = call(name, halves, {weights[0], activations[0]});
  return sum ? Value(arith::AddIOp::create(b, sum, products)) : products;
}

Value IntegerDots::finish(Value sum, Value start) {
  if (chosen != Form::Bytes)
    return sum;
  Value ones = b.integer(sum.getType(), 1);
  return arith::AddIOp::create(b, multiplyPairs(sum, ones), b.broadcast(start, width));
}

} // namespace gemma::codegen
