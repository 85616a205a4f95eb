// Level 2: the same nodes, grouped into what one launch will do.
#ifndef GEMMA_GROUP_OPS_TD
#define GEMMA_GROUP_OPS_TD

include "dialect/gemma/GemmaOpBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Gemma_GroupOp : Gemma_Op<"group", [SingleBlockImplicitTerminator<"YieldOp">,
                                       NoRegionArguments, RecursiveMemoryEffects]> {
  let summary = "nodes that one launch computes";
  let description = [{
    Reads values from outside freely; inlining every group gives the ungrouped function back.

    Constraints:
    - (`group_c1`) the results have the types of the yielded values
    - (`group_c2`) groups do not nest

    ```mlir
    %y, %h = gemma.group -> tensor<?x96xf32>, tensor<?x96xf32> {
      %0 = gemma.residual %x, %o : tensor<?x96xf32>
      %1 = gemma.rmsnorm %0, @norm {eps = 1.0e-6 : f64} : tensor<?x96xf32>
      gemma.yield %0, %1 : tensor<?x96xf32>, tensor<?x96xf32>
    }
    ```
  }];
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`->` type($results)^)? $body attr-dict";
  let hasVerifier = 1;
}

def Gemma_YieldOp : Gemma_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["GroupOp"]>]> {
  let summary = "the values that a group gives";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange{}); }]>];
}

#endif // GEMMA_GROUP_OPS_TD
