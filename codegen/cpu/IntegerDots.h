// Sums of products of small integers, by the instructions that an instruction set has for them:
// what the quantised contraction is made of.
//
// A register of weights holds L rows of a panel, four consecutive k of each (a quad), as unsigned
// bytes; the activations of a quad are broadcast. Three forms, of which the first one always works:
//
//   Pairs  weights are split into even and odd bytes of 16 bits; pmaddwd with the pairs
//          (x0, x2) and (x1, x3) of 16-bit activations; sums in i32
//   Bytes  pmaddubsw of 4-bit weights with 8-bit activations; the sums of a group's 8 quads fit
//          into 16 bits (8 · 2 · 15 · 127 = 30480), then pmaddwd with ones
//   Quads  vpdpbusd: 8-bit activations, sums in i32
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
  /// of every row's weights and four bytes of activations.
  int64_t steps() const { return quads * parts(); }
  int64_t codesOfStep() const { return wantsPairs() ? 2 : 4; }
  /// The step that `weights` of a quad and part are, without their offset where they are signed.
  Value prepared(Value bytes, int64_t half, int64_t part);
  /// What a prepared group's accumulator begins with, an i32; null if with zero.
  Value preparedStart(Value start);
  Value beginPrepared(Value preparedStart);
  /// The sum of a group, which began with its start.
  Value total(Value sum);

private:
  enum class Form { Pairs, Bytes, Quads };
  Value call(llvm::StringRef name, mlir::Type result, mlir::ValueRange operands);
  Value multiplyPairs(Value a, Value c);

  KernelBuilder &b;
  int64_t bits, width;
  Form chosen;
};

} // namespace gemma::codegen
