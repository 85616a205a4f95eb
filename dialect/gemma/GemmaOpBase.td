// Operand kinds and op classes that the families share.
#ifndef GEMMA_OP_BASE_TD
#define GEMMA_OP_BASE_TD

include "dialect/gemma/GemmaAttrs.td"
include "dialect/gemma/GemmaInterfaces.td"
include "dialect/gemma/GemmaTypes.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// Only the row count of a tensor may be unknown: hidden sizes, heads and so on are model constants.
def Gemma_StaticRow : CPred<[{
  ::llvm::all_of(::llvm::cast<::mlir::ShapedType>($_self).getShape().drop_front(),
                 [](int64_t size) { return size > 0; })
}]>;

class Gemma_TensorOf<list<int> ranks, string summary>
    : RankedTensorOf<[F64, F32, BF16, F16], [HasAnyRankOfPred<ranks>, Gemma_StaticRow], summary>;

// [T, N] or [T, heads, D] of f64, f32, bf16 or f16.
def Gemma_Rows : Gemma_TensorOf<[2, 3], "[T, N] or [T, heads, D] floats with static rows">;
// [T, N]
def Gemma_Rows2 : Gemma_TensorOf<[2], "[T, N] floats with static N">;
// [T, heads, D]
def Gemma_Heads : Gemma_TensorOf<[3], "[T, heads, D] floats with static heads and D">;
// [T] token ids or row numbers
def Gemma_Ids : RankedTensorOf<[I32], [HasAnyRankOfPred<[1]>], "[T] i32">;

// An op with tensor results whose rows are those of its first operand.
class Gemma_RowOp<string mnemonic, list<Trait> traits = []>
    : Gemma_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>],
        traits)> {
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::reifyResultShapes(
        ::mlir::OpBuilder &builder, ::mlir::ReifiedRankedShapedTypeDims &shapes) {
      return reifyRowsOf(getOperation()->getOperand(0), getOperation(), builder, shapes);
    }
  }];
}

// An op that is a node of the spec.
class Gemma_NodeOp<string mnemonic, list<Trait> traits = []>
    : Gemma_RowOp<mnemonic, !listconcat([DeclareOpInterfaceMethods<Gemma_CostOpInterface>,
                                         DeclareOpInterfaceMethods<Gemma_SpecOpInterface>],
                                        traits)>;

// A node whose result has the type of its first operand.
class Gemma_SameTypeOp<string mnemonic, string operand = "x", list<Trait> traits = []>
    : Gemma_NodeOp<mnemonic, !listconcat([AllTypesMatch<[operand, "y"]>], traits)>;

// Checks the symbols that the op names, when the enclosing symbol table is verified.
def Gemma_SymbolUser : DeclareOpInterfaceMethods<SymbolUserOpInterface>;

#endif // GEMMA_OP_BASE_TD
