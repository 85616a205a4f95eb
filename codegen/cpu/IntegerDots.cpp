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
  return chosen == Form::Bytes ? b.integer(sumType(), 0) : b.broadcast(start, width);
}

VectorType IntegerDots::sumType() {
  return chosen == Form::Bytes ? b.vec(b.getIntegerType(16), 2 * width)
                               : b.vec(b.getI32Type(), width);
}

Value IntegerDots::add(Value sum, Value weights, Value activations) {
  if (wantsPairs())
    return arith::AddIOp::create(b, sum, multiplyPairs(weights, activations));
  return addBytes(sum, weights, activations);
}

Value IntegerDots::addBytes(Value sum, Value unsignedBytes, Value signedBytes) {
  if (chosen == Form::Quads)
    return call("llvm.x86.avx512.vpdpbusd.512", sumType(), {sum, unsignedBytes, signedBytes});
  StringRef name = width == 16 ? "llvm.x86.avx512.pmaddubs.w.512" : "llvm.x86.avx2.pmadd.ub.sw";
  return arith::AddIOp::create(b, sum, call(name, sumType(), {unsignedBytes, signedBytes}));
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
  Value unsignedWeights = weights(bytes, half, part);
  return arith::SubIOp::create(b, unsignedWeights,
                               b.integer(unsignedWeights.getType(), int64_t(1) << (bits - 1)));
}

Value IntegerDots::preparedActivations(Value codes) {
  if (wantsPairs())
    return codes;
  return arith::XOrIOp::create(b, codes, b.integer(codes.getType(), -128));
}

Value IntegerDots::correction(ArrayRef<Value> steps) {
  Value zero = b.integer(sumType(), 0), sum = zero;
  for (Value weights : steps)
    sum = addBytes(sum, b.integer(weights.getType(), -128), weights);
  Value negative = arith::SubIOp::create(b, zero, sum);
  return vector::BitCastOp::create(b, b.vec(b.getI32Type(), width), negative);
}

Value IntegerDots::beginPrepared(Value begin) {
  if (!begin)
    return b.integer(sumType(), 0);
  return vector::BitCastOp::create(b, sumType(), begin);
}

Value IntegerDots::addPrepared(Value sum, Value weights, Value activations) {
  return wantsPairs() ? add(sum, weights, activations) : addBytes(sum, activations, weights);
}

} // namespace gemma::codegen
