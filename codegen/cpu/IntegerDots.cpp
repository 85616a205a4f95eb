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

Value IntegerDots::weights(Value bytes, int64_t quad, int64_t part) {
  if (bits == 8 && !wantsPairs())
    return bytes;
  auto halves = b.vec(b.getIntegerType(16), 2 * width);
  Value words = vector::BitCastOp::create(b, halves, bytes);
  // Where the wanted bits begin in each 16: bytes are even and odd, nibbles lower and upper.
  int64_t shift = part * 8 + quad * 4, mask = wantsPairs() ? (1 << bits) - 1 : 0x0f0f;
  if (shift)
    words = arith::ShRUIOp::create(b, words, b.integer(halves, shift));
  if (shift + bits < 16)
    words = arith::AndIOp::create(b, words, b.integer(halves, mask));
  return wantsPairs() ? words
                      : Value(vector::BitCastOp::create(b, b.vec(b.getI8Type(), 4 * width), words));
}

Value IntegerDots::activations(const View &view, Value row, Value column, int64_t part) {
  Type i32 = b.getI32Type(), stored = view.element();
  int64_t each = 32 / stored.getIntOrFloatBitWidth();
  Value loaded = vector::LoadOp::create(b, b.vec(stored, each), view.memory,
                                        ValueRange{row, b.add(column, b.index(part * each))});
  Value both = b.extract(vector::BitCastOp::create(b, b.vec(i32, 1), loaded), 0);
  return vector::BitCastOp::create(b, b.vec(stored, each * width), b.broadcast(both, width));
}

Value IntegerDots::begin(Value start) {
  if (chosen == Form::Bytes)
    return b.integer(b.vec(b.getIntegerType(16), 2 * width), 0);
  return b.broadcast(start, width);
}

Value IntegerDots::add(Value sum, Value weights, Value activations) {
  if (chosen == Form::Quads)
    return call("llvm.x86.avx512.vpdpbusd.512", sum.getType(), {sum, weights, activations});
  Value products;
  if (chosen == Form::Pairs) {
    products = multiplyPairs(weights, activations);
  } else {
    StringRef name = width == 16 ? "llvm.x86.avx512.pmaddubs.w.512" : "llvm.x86.avx2.pmadd.ub.sw";
    products = call(name, b.vec(b.getIntegerType(16), 2 * width), {weights, activations});
  }
  return arith::AddIOp::create(b, sum, products);
}

Value IntegerDots::finish(Value sum, Value start) {
  if (chosen != Form::Bytes)
    return sum;
  return arith::AddIOp::create(b, total(sum), b.broadcast(start, width));
}

Value IntegerDots::total(Value sum) {
  return chosen == Form::Bytes ? multiplyPairs(sum, b.integer(sum.getType(), 1)) : sum;
}

Value IntegerDots::prepared(Value bytes, int64_t half, int64_t part) {
  Value words = weights(bytes, half, part);
  if (!wantsPairs())
    return words;
  return arith::SubIOp::create(b, words, b.integer(words.getType(), int64_t(1) << (bits - 1)));
}

Value IntegerDots::preparedStart(Value start) {
  if (chosen == Form::Quads)
    return start;
  if (chosen == Form::Pairs)
    return nullptr;
  Type i32 = b.getI32Type();
  Value half = arith::ShRSIOp::create(b, start, b.integer(i32, 1));
  Value low = arith::AndIOp::create(b, half, b.integer(i32, 0xffff));
  return arith::OrIOp::create(b, arith::ShLIOp::create(b, half, b.integer(i32, 16)), low);
}

Value IntegerDots::beginPrepared(Value preparedStart) {
  auto sums = b.vec(b.getI32Type(), width);
  if (chosen == Form::Pairs)
    return b.integer(sums, 0);
  Value both = b.broadcast(preparedStart, width);
  if (chosen == Form::Quads)
    return both;
  return vector::BitCastOp::create(b, b.vec(b.getIntegerType(16), 2 * width), both);
}

} // namespace gemma::codegen
