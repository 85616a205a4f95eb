// Operand kinds that the op families share.
#ifndef GEMMA_OP_BASE_TD
#define GEMMA_OP_BASE_TD

include "dialect/gemma/GemmaAttrs.td"
include "dialect/gemma/GemmaInterfaces.td"
include "dialect/gemma/GemmaTypes.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// [..., N] of f64, f32, bf16 or f16.
def Gemma_Rows : RankedTensorOf<[F64, F32, BF16, F16], [HasAnyRankOfPred<[2, 3]>], "rows of floats">;
// [T, N]
def Gemma_Rows2 : RankedTensorOf<[F64, F32, BF16, F16], [HasAnyRankOfPred<[2]>], "[T, N] floats">;
// [T, heads, D]
def Gemma_Heads : RankedTensorOf<[F64, F32, BF16, F16], [HasAnyRankOfPred<[3]>], "[T, heads, D] floats">;
// [T] token ids or row numbers
def Gemma_Ids : RankedTensorOf<[I32], [HasAnyRankOfPred<[1]>], "[T] i32">;

// An op that is a node of the spec.
class Gemma_NodeOp<string mnemonic, list<Trait> traits = []>
    : Gemma_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<Gemma_CostOpInterface>,
                                      DeclareOpInterfaceMethods<Gemma_SpecOpInterface>], traits)>;

// A node whose result has the type of its first operand.
class Gemma_SameTypeOp<string mnemonic, string operand = "x", list<Trait> traits = []>
    : Gemma_NodeOp<mnemonic, !listconcat([AllTypesMatch<[operand, "y"]>], traits)>;

#endif // GEMMA_OP_BASE_TD
