#include "dialect/gemma/Gemma.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace gemma::ir;

#include "dialect/gemma/GemmaDialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/gemma/GemmaTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/gemma/GemmaAttrs.cpp.inc"
#include "dialect/gemma/GemmaInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialect/gemma/GemmaOps.cpp.inc"

void GemmaDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/gemma/GemmaTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/gemma/GemmaAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/gemma/GemmaOps.cpp.inc"
      >();
}

static bool isFloatOfNumerics(Type type) {
  return type.isF64() || type.isF32() || type.isBF16() || type.isF16();
}

LogicalResult NumericsAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, Type weights,
                                   Type activations, Type accumulate, Type residual, Type kv,
                                   Type logits, Type embedding, Type codes) {
  // numerics_c1
  for (Type type : {activations, accumulate, residual, logits})
    if (!isFloatOfNumerics(type))
      return emitError() << "expected f64, f32, bf16 or f16, got " << type;
  bool codesOfKv = kv.isSignlessInteger(8);
  if (!codesOfKv && !isFloatOfNumerics(kv))
    return emitError() << "expected kv of f64, f32, bf16, f16 or i8, got " << kv;
  bool quantised = false;
  for (Type type : {weights, embedding ? embedding : weights}) {
    bool integer = type.isSignlessInteger(8) || type.isSignlessInteger(4);
    if (!integer && !isFloatOfNumerics(type))
      return emitError() << "expected weights of f64, f32, bf16, f16, i8 or i4, got " << type;
    quantised |= integer;
  }
  // numerics_c2
  if (codes && !codes.isSignlessInteger(8) && !codes.isSignlessInteger(16))
    return emitError() << "expected codes of i8 or i16, got " << codes;
  if (quantised != bool(codes))
    return emitError() << (quantised ? "expected codes beside integer weights"
                                     : "expected no codes without integer weights");
  if (quantised && !accumulate.isF32())
    return emitError() << "expected integer weights to be accumulated in f32, got " << accumulate;
  // numerics_c3
  if (codesOfKv && !accumulate.isF32())
    return emitError() << "expected kv of i8 to be accumulated in f32, got " << accumulate;
  return success();
}

LogicalResult KeysOfValuesAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                                       FlatSymbolRefAttr, FloatAttr theta, int64_t rot,
                                       int64_t denom, int64_t active) {
  // keys_of_values_c1
  const APFloat &base = theta.getValue();
  if (!theta.getType().isF64() || !base.isFinite() || base.isNegative() || base.isZero())
    return emitError() << "expected a positive finite f64 theta, got " << theta;
  // keys_of_values_c2
  if (rot < 2 || rot % 2 != 0 || denom < 1 || active < 1 || active > rot / 2)
    return emitError() << "expected an even rot >= 2, denom >= 1 and active in [1, rot / 2], got "
                       << rot << ", " << denom << " and " << active;
  return success();
}
