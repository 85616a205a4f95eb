// Sums of products of small integers, by the instructions that an instruction set has for them:
// what the quantised contraction is made of.
//
// A register of weights holds L rows of a panel, four consecutive k of each (a quad); the
// activations of a quad are broadcast. Three forms, of which the first one always works:
//
//   Pairs  weights are split into even and odd bytes of 16 bits; pmaddwd with the pairs
//          (x0, x2) and (x1, x3) of 16-bit activations; sums in i32
//   Bytes  pmaddubsw of 4-bit weights with 8-bit activations; sums of a group's 8 quads in 16 bits,
//          then pmaddwd with ones
//   Quads  vpdpbusd: 8-bit activations, sums in i32
//
// Products of bytes take one operand without a sign. Weights as they are stored are that operand
// (w + 8, w + 128), and a group begins at -8·Σx or -128·Σx. Where operands are prepared beforehand
// activations are (x + 128), and a group begins at -128·Σw, which is the same for all rows.
#pragma once

#include "codegen/cpu/KernelBuilder.h"

namespace gemma::codegen {

class IntegerDots {
public:
  using Value = mlir::Value;
  static constexpr int64_t quads = 8; ///< of a group

  /// `bits` of a weight, `actBits` of an activation.
  IntegerDots(KernelBuilder &b, int64_t bits, int64_t actBits);

  /// Whether activations must be i16 in the order of pairs.
  bool wantsPairs() const { return chosen == Form::Pairs; }
  /// Rows of a register.
  int64_t lanes() const { return width; }

  /// Products of a quad come in so many parts: pairs in two.
  int64_t parts() const { return wantsPairs() ? 2 : 1; }
  /// Weights of L rows for a part of a quad. A register of stored bytes holds one quad of 8-bit
  /// weights, or quads j and j + 4 of 4-bit ones: `quad` says which.
  Value weights(Value bytes, int64_t quad, int64_t part);
  /// The activations of a part of the quad `view`[row, column..], for every row of weights.
  Value activations(const View &view, Value row, Value column, int64_t part);

  /// An accumulator that starts at `start`, an i32; the sum of a group.
  Value begin(Value start);
  Value add(Value sum, Value weights, Value activations);
  Value finish(Value sum, Value start);

  /// The same where operands are prepared beforehand: a group is `steps()` steps, each four bytes
  /// of every row's weights, signed, and four bytes of activations.
  int64_t steps() const { return quads * parts(); }
  int64_t codesOfStep() const { return wantsPairs() ? 2 : 4; }
  /// The step that `weights` of a quad and part are, without their offset.
  Value prepared(Value bytes, int64_t half, int64_t part);
  /// A vector of i8 codes as products of bytes take them.
  Value preparedActivations(Value codes);
  /// What products of bytes begin the sums of these steps with: a register of L i32, with Bytes two
  /// halves of 16 bits in each.
  Value correction(llvm::ArrayRef<Value> steps);
  /// An accumulator that begins with a correction; with Pairs there is none (null).
  Value beginPrepared(Value begin);
  /// With Bytes no two products saturate (2 · 255 · 8 = 4080), and sums may wrap on the way: a half
  /// of a group's Σ w·x is at most 16 · 8 · 128 = 16384.
  Value addPrepared(Value sum, Value weights, Value activations);
  /// The sum of a group.
  Value total(Value sum);

private:
  enum class Form { Pairs, Bytes, Quads };
  Value call(llvm::StringRef name, mlir::Type result, mlir::ValueRange operands);
  Value multiplyPairs(Value a, Value c);
  /// Sums of products of unsigned by signed bytes, in the form of the accumulators.
  Value addBytes(Value sum, Value unsignedBytes, Value signedBytes);
  mlir::VectorType sumType();

  KernelBuilder &b;
  int64_t bits, width;
  Form chosen;
};

} // namespace gemma::codegen
