// Vector mathematics without a library: exp, tanh and conversions of 16-bit floats, made of IEEE
// operations and integer shifts that every instruction set has.
#pragma once

#include "codegen/cpu/KernelBuilder.h"

namespace gemma::codegen {

/// e^x for f32 or f64, scalar or vector, within 1.5 ulp: 0 below the range, inf above, NaN stays
/// NaN.
mlir::Value emitExp(KernelBuilder &b, mlir::Value x);

/// e^x for x ≤ 0 and NaN, within 1.5 ulp and in fewer instructions; 0 where x is below -87 (f32) or
/// -708 (f64).
mlir::Value emitExpOfNegative(KernelBuilder &b, mlir::Value x);

/// tanh(x) for f32 or f64, within 2.5 ulp everywhere, near 0 too.
mlir::Value emitTanh(KernelBuilder &b, mlir::Value x);

/// Converts a vector between its stored and its computed type: widens (exact) or rounds to nearest,
/// ties to even. 16-bit floats are vectors of i16, `type` says which float they are. Integers widen
/// to floats as signed ones.
mlir::Value emitWiden(KernelBuilder &b, mlir::Value stored, mlir::Type type, mlir::Type compute);
mlir::Value emitRound(KernelBuilder &b, mlir::Value value, mlir::Type type);

/// The bits of 16-bit floats, in the low halves of a vector of i32, as f32.
mlir::Value emitHalfBitsToF32(KernelBuilder &b, mlir::Value bits, mlir::Type type);

} // namespace gemma::codegen
