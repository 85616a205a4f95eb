// Sums of products of small integers, by the instructions that an instruction set has for them:
// what the quantised contraction is made of.
//
// A register of weights holds L rows of a panel, four consecutive k of each (a quad), as unsigned
// bytes; the activations of a quad are broadcast. Three forms, of which the first one always works:
//
//   Pairs  weights are split into even and odd bytes of 16 bits; pmaddwd with the pairs (x0, x2)
//   and
//          (x1, x3) of 16-bit activations; sums in i32
//   Bytes  pmaddubsw of 4-bit weights with 8-bit activations; the sums of a group's 8 quads fit
//   into
//          16 bits (8 · 2 · 15 · 127 = 30480), then pmaddwd with ones
//   Quads  vpdpbusd: 8-bit activations, sums in i32
#pragma once

#include "codegen/cpu/KernelBuilder.h"

namespace gemma::codegen {

class IntegerDots {
public:
  using Value = mlir::Value;
  enum class Form { Pairs, Bytes, Quads };
  static constexpr int64_t quads = 8; ///< of a group

  /// `bits` of a weight, `actBits` of an activation.
  IntegerDots(KernelBuilder &b, int64_t bits, int64_t actBits);

  Form form() const { return chosen; }
  /// Whether activations must be i16 in the order of pairs.
  bool wantsPairs() const { return chosen == Form::Pairs; }
  /// Rows of a register.
  int64_t lanes() const { return width; }

  /// Weights of L rows for a quad, ready to be multiplied: one value, of pairs two.
  using Weights = llvm::SmallVector<Value, 2>;
  /// What one register of stored bytes holds: of 8 bits one quad, of 4 bits quads j and j + 4.
  llvm::SmallVector<Weights, 2> unpack(Value bytes);
  /// The activations of a quad of a row: `view`[row, column..].
  Weights activations(const View &view, Value row, Value column);

  /// An accumulator that starts at `start`, an i32; the sum of a group.
  Value begin(Value start);
  Value add(Value sum, const Weights &weights, const Weights &activations);
  Value finish(Value sum, Value start);

private:
  Value call(llvm::StringRef name, mlir::Type result, mlir::ValueRange operands);
  Value multiplyPairs(Value a, Value c);

  KernelBuilder &b;
  int64_t bits, width;
  Form chosen;
};

} // namespace gemma::codegen
