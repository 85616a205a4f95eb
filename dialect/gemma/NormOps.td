// Normalisations of the last axis.
#ifndef GEMMA_NORM_OPS_TD
#define GEMMA_NORM_OPS_TD

include "dialect/gemma/GemmaOpBase.td"

class Gemma_WeightedNormOp<string mnemonic> : Gemma_SameTypeOp<mnemonic> {
  let arguments = (ins Gemma_Rows:$x, FlatSymbolRefAttr:$weight, F64Attr:$eps);
  let results = (outs Gemma_Rows:$y);
  let assemblyFormat = "$x `,` $weight attr-dict `:` type($x)";
}

class Gemma_UnitNormOp<string mnemonic> : Gemma_SameTypeOp<mnemonic> {
  let arguments = (ins Gemma_Rows:$x, F64Attr:$eps);
  let results = (outs Gemma_Rows:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def Gemma_RmsNormOp : Gemma_WeightedNormOp<"rmsnorm"> {
  let summary = "RMSNorm with the weight applied as w";
}
def Gemma_RmsNormOffsetOp : Gemma_WeightedNormOp<"rmsnorm_offset"> {
  let summary = "RMSNorm with the weight applied as 1 + w";
}
def Gemma_RmsNormUnitOp : Gemma_UnitNormOp<"rmsnorm_unit"> {
  let summary = "RMSNorm without a weight";
}
def Gemma_L2NormOp : Gemma_UnitNormOp<"l2norm"> {
  let summary = "L2 normalisation";
}
def Gemma_RmsNormGatedOp : Gemma_SameTypeOp<"rmsnorm_gated", "x", [AllTypesMatch<["x", "z"]>]> {
  let summary = "RMSNorm times silu of a gate";
  let arguments = (ins Gemma_Rows:$x, Gemma_Rows:$z, FlatSymbolRefAttr:$weight, F64Attr:$eps);
  let results = (outs Gemma_Rows:$y);
  let assemblyFormat = "$x `,` $z `,` $weight attr-dict `:` type($x)";
}

#endif // GEMMA_NORM_OPS_TD
