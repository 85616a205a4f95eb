// The ops of the kernel dialect: one kernel as a grid of independent blocks over a closed set of core ops.
#ifndef KERNEL_OPS_TD
#define KERNEL_OPS_TD

include "dialect/kernel/KernelAttrs.td"
include "dialect/kernel/KernelInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Kernel_Op<string mnemonic, list<Trait> traits = []> : Op<Kernel_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

def Kernel_FuncOp : Kernel_Op<"func", [FunctionOpInterface, IsolatedFromAbove, Symbol,
                                       SingleBlock]> {
  let summary = "one kernel";
  let description = [{
    Arguments are memrefs; each carries `kernel.access = #kernel.access<read|write|readwrite>`.
    `grid` gives the number of blocks as an affine map `()[T, B, Q, S, R] -> (n)`.

    With `launch` it is a GPU kernel: a block has that many threads and that much shared memory, in
    which its `kernel.scratch` lies. Of its core ops only `kernel.rows` lie outside `kernel.grid`: every block
    runs them. An argument that it only
    reads and whose shape is static is a weight or a table: nothing changes it while the program runs.

    Constraints:
    - (`func_c1`) `grid` has no dimensions, five symbols and one result
    - (`func_c2`) every argument is a memref, of which only the first dimension may be dynamic
    - (`func_c3`) every argument has a `kernel.access`
    - (`func_c4`) the body has at most one `kernel.grid`
    - (`func_c5`) the body ends with `kernel.return`
    - (`func_c6`) an argument that the body reads is `read` or `readwrite`, one that it writes is
      `write` or `readwrite`
    - (`func_c7`) with `launch`, core ops and scratch lie in or before the `kernel.grid`, and only
      scratch and `kernel.rows`, which every block runs, before it

    ```mlir
    kernel.func @double(%x: memref<?x96xf32> {kernel.access = #kernel.access<read>},
                        %y: memref<?x96xf32> {kernel.access = #kernel.access<write>})
        grid affine_map<()[T, B, Q, S, R] -> (T)> {
      kernel.grid %j {
        kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 1)> extent <T>
          ins(%x : memref<?x96xf32>) outs(%y : memref<?x96xf32>)
          maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
        ^bb0(%xr: tensor<96xf32>):
          %yr = arith.addf %xr, %xr : tensor<96xf32>
          kernel.yield %yr : tensor<96xf32>
        }
      }
      kernel.return
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       AffineMapAttr:$grid, OptionalAttr<Kernel_LaunchAttr>:$launch,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs,
                       OptionalAttr<StrAttr>:$sym_visibility);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() { return {}; }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// The declared access of argument `index`.
    ::gemma::kernel::Access getAccess(unsigned index);
    /// Bytes of scratch that a worker of a host kernel needs: all blocks of the body's ops, each
    /// rounded up to 64 bytes.
    int64_t getScratchBytes();
  }];
}

def Kernel_ReturnOp : Kernel_Op<"return", [Pure, Terminator, ReturnLike, HasParent<"FuncOp">]> {
  let summary = "ends a kernel";
  let assemblyFormat = "attr-dict";
}

def Kernel_GridOp : Kernel_Op<"grid", [HasParent<"FuncOp">,
                                       SingleBlockImplicitTerminator<"EndOp">,
                                       RecursiveMemoryEffects]> {
  let summary = "the work of one block";
  let description = [{
    The region's only argument is the block's number.

    Constraints:
    - (`grid_c1`) the region has one argument, an index
  }];
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Value getBlockIndex() { return getBody().getArgument(0); }
  }];
}

def Kernel_EndOp : Kernel_Op<"end", [Pure, Terminator, HasParent<"GridOp">]> {
  let summary = "ends the work of a block";
  let assemblyFormat = "attr-dict";
}

def Kernel_ScratchOp : Kernel_Op<"scratch", [
    MemoryEffects<[MemAlloc]>, DeclareOpInterfaceMethods<Kernel_ScratchOpInterface>]> {
  let summary = "memory of one worker, 64-byte aligned, undefined at the start of a launch";
  let results = (outs AnyStaticShapeMemRef:$memory);
  let assemblyFormat = "attr-dict `:` type($memory)";
}

//===----------------------------------------------------------------------===//
// Core ops
//===----------------------------------------------------------------------===//

def Kernel_RowsOp : Kernel_Op<"rows", [AttrSizedOperandSegments, SingleBlock,
                                       MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "independent rows: reductions, elementwise maths, gathers and scatters";
  let description = [{
    Runs the body for every (t, h) of a box. `domain` is an affine map
    `(block)[T, B, Q, S, R] -> (tBegin, tEnd, hBegin, hEnd)`, clamped to t < extent; without a block
    operand it has no dimension.

    Each input and output has one access map `(t, h, e, l0, l1, ...) -> (indices of the memref)`:
    e is the element's number within the row, l_i the value `lookups[i][t]`. The body's arguments
    are the rows of the inputs as `tensor<N x type>` (N is the number of elements), or scalars; it
    yields one tensor an output. Allowed in the body: elementwise arith and math, splats,
    `tensor.extract_slice` and `tensor.insert_slice` with static offsets and unit strides,
    `kernel.reduce`.

    `once`: what does not lie in scratch is stored by the range that holds block 0 alone (so that one
    block writes a result that every block computes). On the host no other range runs the op, and it has
    no scratch.

    `swizzled = [i]`: memory i, inputs before outputs, is in the layout of GPU contractions
    (`kernel.contract`): a weight, or activations in scratch. Its map gives logical indices; the eight
    chunks of 8 columns in the last dimension are stored exclusive-or'ed with the index before it.

    Constraints:
    - (`rows_c1`) `domain` has one dimension with a block operand and none without, five symbols, four
      results
    - (`rows_c2`) there is an output, and one map an input and output
    - (`rows_c3`) a map has 3 dimensions and one a lookup, no symbols, and as many results as its
      memref has dimensions
    - (`rows_c4`) lookups have rank 1
    - (`rows_c5`) the body has one argument an input, `tensor<N x type>` or a scalar; the type is the
      memref's, or a wider float
    - (`rows_c6`) the body yields one `tensor<N x type>` an output; the type is the memref's, or a wider
      float
    - (`rows_c7`) the body holds the ops named above only
    - (`rows_c8`) a `swizzled` memory is a memref `... x R x 64` of 16-bit floats, R at most 8

    ```mlir
    kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
      ins(%x, %w : memref<?x96xf32>, memref<96xf32>) outs(%y : memref<?x96xf32>)
      maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (e)>, affine_map<(t, h, e) -> (t, e)>] {
    ^bb0(%xr: tensor<96xf32>, %wr: tensor<96xf32>):
      %sq = arith.mulf %xr, %xr : tensor<96xf32>
      %ss = kernel.reduce add %sq : tensor<96xf32>
      %s = math.rsqrt %ss : f32
      %sr = tensor.splat %s : tensor<96xf32>
      %n = arith.mulf %xr, %sr : tensor<96xf32>
      %yr = arith.mulf %n, %wr : tensor<96xf32>
      kernel.yield %yr : tensor<96xf32>
    }
    ```
  }];
  let arguments = (ins Optional<Index>:$block, Variadic<AnyMemRef>:$inputs,
                       Variadic<AnyMemRef>:$outputs, Variadic<MemRefOf<[I32]>>:$lookups,
                       AffineMapAttr:$domain, Kernel_ExtentAttr:$extent,
                       AffineMapArrayAttr:$maps, UnitAttr:$once,
                       OptionalAttr<DenseI64ArrayAttr>:$swizzled);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`block` $block^)? `domain` $domain `extent` $extent (`once` $once^)?
    (`lookup` `(` $lookups^ `:` type($lookups) `)`)?
    (`ins` `(` $inputs^ `:` type($inputs) `)`)? `outs` `(` $outputs `:` type($outputs) `)`
    `maps` $maps attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
}

def Kernel_Reduction : I32EnumAttr<"Reduction", "what a reduction combines with", [
    I32EnumAttrCase<"Add", 0, "add">, I32EnumAttrCase<"Max", 1, "max">]> {
  let cppNamespace = "::gemma::kernel";
}

def Kernel_ReduceOp : Kernel_Op<"reduce", [Pure, TypesMatchWith<"result is the element type",
    "x", "y", "::llvm::cast<::mlir::RankedTensorType>($_self).getElementType()">]> {
  let summary = "sum or maximum of a row";
  let arguments = (ins Kernel_Reduction:$kind, 1DTensorOf<[F64, F32]>:$x);
  let results = (outs AnyFloat:$y);
  let assemblyFormat = "$kind $x attr-dict `:` type($x)";
}

def Kernel_YieldOp : Kernel_Op<"yield", [Pure, Terminator, ReturnLike]> {
  let summary = "the values that a core op's body gives";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Kernel_QuantizeOp : Kernel_Op<"quantize", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "rows as integers, in groups of 32 columns with a scale each";
  let description = [{
    Block j handles row j; without a block operand all rows t < extent are handled. With M the largest
    |x| of a group of 32 columns and m = 127 for codes of i8, 32767 for i16:

      scale = M / m, code = round(x · (m / M)) to nearest, ties to even

    so that |x - code · scale| ≤ scale/2 · (1 + m · 2^-21). A group with M < 2^-100 has scale and codes 0.
    Columns beyond those of `x`, up to whole groups, are zero. `starts` = -zero · Σ codes of the group:
    where a contraction with weights stored as w + zero begins. A NaN or infinity makes the group's scale
    one.

    In memory the four i16 codes of columns 4q.. lie in the order 0, 2, 1, 3: 32-bit pieces are the pairs
    that weights, split into even and odd bytes, are multiplied with. Codes of i8 lie in order.

    Constraints:
    - (`quantize_c1`) `x` is [T, K] of floats with static K
    - (`quantize_c2`) `codes` is [T, 32·G] of i8 or i16, G = ceil(K / 32), `scales` [T, G] of f32 and
      `starts` [T, G] of i32
    - (`quantize_c3`) `zero` is 8 or 128

    ```mlir
    kernel.quantize block %j ins(%x : memref<?x63xf32>)
      outs(%codes, %scales, %starts : memref<?x64xi8>, memref<?x2xf32>, memref<?x2xi32>) extent <T> zero 128
    ```
  }];
  let arguments = (ins Optional<Index>:$block, AnyMemRef:$x, AnyMemRef:$codes, MemRefOf<[F32]>:$scales,
                       MemRefOf<[I32]>:$starts, Kernel_ExtentAttr:$extent, I64Attr:$zero);
  let assemblyFormat = [{
    (`block` $block^)? `ins` `(` $x `:` type($x) `)` `outs` `(` $codes `,` $scales `,` $starts `:`
    type($codes) `,` type($scales) `,` type($starts) `)` `extent` $extent `zero` $zero attr-dict
  }];
  let hasVerifier = 1;
}

def Kernel_ContractOp : Kernel_Op<"contract", [
    SingleBlock, AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>,
    DeclareOpInterfaceMethods<Kernel_ScratchOpInterface>]> {
  let summary = "out[t, n] = epilogue(Σ_k act[t, k] · weight[n, k])";
  let description = [{
    Block j computes the `panels` consecutive panels from j·panels on (fewer at the end), all rows
    t < extent. The weight is packed in panels of 16 rows of W: `memref<P x K x 16 x T>` or, with 16-bit
    types, `memref<P x K/2 x 16 x 2 x T>` (K rounded up); rows and columns beyond N and K are zero.
    Sums run over k in ascending order, one accumulator an output, whatever the tile: a result does
    not depend on the variant or on what else is computed.

    With `gpu_tile` the weight is packed for tensor cores: `memref<ceil(K/64) x G x 8 x 64 x T>`, T of
    16 bits, holds row 8g + r of W, columns 64b.., at [b, g, r, ...], zero beyond N and K. Of these 64
    columns the chunk of columns 8c..8c+7 is stored at chunk c xor r, so that a copy in shared memory
    is read without bank conflicts. With `raster` 1 block j computes row tile `j mod ceil(8·G / rows)` of
    token tile `j floordiv ceil(8·G / rows)`; `panels` and `row_tile` are not looked at. With `pair`, groups
    g = 2i and 2i + 1 hold the rows 8i.. of the gate and of the up projection.

    With `gpu_tile` activations may lie in scratch, `memref<ceil(K/64) x R x 64 x bf16>` of R ≤ 8 rows, chunks
    of 8 columns swizzled by the row as those of the weight, zero beyond K: what `kernel.rows` outside
    the grid left there. Tiles are then of 8 tokens, and only weights are copied.

    With `segments` in `gpu_tile` block j computes the j-th run of them. A tile that one block covers is
    stored at once; of another one each block leaves its sums in `partials`, and the last one that
    arrives, by a counter in `tickets`, adds them in the order of k and stores. A result then depends
    on how the work was cut, but not on which block was last. `tickets` are zero before and after.

    With `quantised` the weight is of integers, `memref<P x G x 8 x 16 x 4 x i8>` (w + 128) or
    `memref<P x G x 4 x 16 x 4 x i8>` (w + 8, two a byte), see dialect/program/Layout.h; it begins with
    the weight's scales, `memref<P x G x 16 x f16>`. `act` are then codes that `kernel.quantize` made with
    `zero` 128 or 8, followed by their scales and starts. Products and sums of a group are exact in i32:
    |Σ| ≤ 32 · 255 · 32767 + 128 · 32 · 32767 < 2^29. Groups are added in f32 in ascending order,
    `sum += float(Σ) · (weight scale · activation scale)`, so a result depends on its row alone here too.

    On the host up to 8 rows of `row_tile` are those of the largest tile of registers: scratch is then
    `[row_tile, 32·G]` of i16 if the codes are i8, else none. With more rows the op is blocked: their sums
    lie in scratch, and for D consecutive k at a time (at most 16 KiB of a panel's prepared weights) what is read
    of act and weight is prepared there once for all of them. Scratch is then, of the accumulator's type,
    sums `[row_tile, 16·panels]`, activations `[row_tile, D']` and weights `[min(panels, 2), D, 16]`; or of
    quantised ones sums, codes `[row_tile, D']` of i16, their scales `[row_tile, D/32]` of f32, weights
    `[min(panels, 2), D/32, 16, 64]` of i8, their scales `[min(panels, 2), D/32, 16]` of f32 and, of i32,
    what products of bytes begin a group's sums with, -128·Σw, likewise. D' is a cache line more than
    D. Such products have codes of 8 bits and half as many bytes of weights. Last comes `[8, 32·G]` of i16 if
    codes are i8, for the few rows that are not worth it.

    With `best` a block also leaves, of every row of `out`, the largest of the columns that it stored: for
    row tile i `best[t, i]` is the key of that entry, a number of 64 bits as two words, the lower one
    first. The lower word is the complement of the column; the upper one orders like the value (its
    bits, all flipped where the value is negative, else the sign alone; NaN is 0, -0 is 0), so that the
    largest key is the largest value's, of equal ones the smallest column's.

    With `pair`, panels 2j and 2j + 1 hold the rows 16j.. of the gate and of the up projection; the
    epilogue takes both sums and out has half as many columns. Without, it takes one sum. Its types
    are those of the accumulator.

    Constraints:
    - (`contract_c1`) `act` is [T, K] and `out` [T, N], of floats, K and N static; `quantised`, `act` is
      of i8 or i16; with a `gpu_tile` of 8 tokens it may be scratch [K/64, R, 64] of bf16, R at most 8
    - (`contract_c2`) `weight` is `P x K x 16`, or of 16-bit floats `P x ceil(K/2) x 16 x 2`; with
      `gpu_tile` of 16-bit floats `ceil(K/64) x G x 8 x 64`
    - (`contract_c3`) `panels` and `row_tile` are positive; with `pair`, P (or G) and `panels`
      are even
    - (`contract_c4`) N is at most the rows of the panels: 16·P, with `pair` 8·P; with `gpu_tile` 8·G, with
      `pair` 4·G
    - (`contract_c5`) the epilogue has one argument, with `pair` two, all f32 or all f64, and yields
      one such value
    - (`contract_c6`) the epilogue holds elementwise arith and math ops only
    - (`contract_c7`) with `segments` = g in `gpu_tile`, and only then, there are `partials`
      [2·g, rows·tokens] of f32 and `tickets` [g]
    - (`contract_c8`) `quantised` are [P, G, 16] of f16, [T, G] of f32 and [T, G] of i32 beside a weight
      `P x G x 8 x 16 x 4` or `P x G x 4 x 16 x 4` of i8, K = 32·G; the epilogue is of f32 and there is no
      `gpu_tile`
    - (`contract_c9`) `best` is [T, ceil(8·G / rows), 2], and only with `gpu_tile`, without `pair` and for
      `out` of f32

    ```mlir
    kernel.contract block %j act(%x : memref<?x63xf32>) weight(%w : memref<6x63x16xf32>)
      out(%y : memref<?x96xf32>) extent <T> panels 2 row_tile 8 {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    }
    ```
  }];
  let arguments = (ins Optional<Index>:$block, AnyMemRef:$act, AnyMemRef:$weight,
                       AnyMemRef:$out, Variadic<AnyMemRef>:$quantised, Optional<AnyMemRef>:$partials,
                       Optional<MemRefOf<[I32]>>:$tickets, Optional<MemRefOf<[I32]>>:$best,
                       Kernel_ExtentAttr:$extent, I64Attr:$panels,
                       I64Attr:$row_tile, UnitAttr:$pair,
                       OptionalAttr<Kernel_MmaAttr>:$gpu_tile);
  let regions = (region SizedRegion<1>:$epilogue);
  let extraClassDeclaration = [{
    bool isQuantised() { return !getQuantised().empty(); }
    /// Whether the activations of a GPU kernel lie in its shared memory.
    bool hasPreparedRows();
    /// Whether a host kernel takes rows and k in blocks.
    bool isBlocked() { return getRowTile() > 8 && !getGpuTile(); }
    /// Of a quantised one: the scales of the weight and of the activations, and the latter's starts.
    ::mlir::Value getWeightScales() { return getQuantised()[0]; }
    ::mlir::Value getActScales() { return getQuantised()[1]; }
    ::mlir::Value getActStarts() { return getQuantised()[2]; }
  }];
  let assemblyFormat = [{
    (`block` $block^)? `act` `(` $act `:` type($act) `)` `weight` `(` $weight `:` type($weight) `)`
    `out` `(` $out `:` type($out) `)` (`quantised` `(` $quantised^ `:` type($quantised) `)`)?
    (`partials` `(` $partials^ `:` type($partials) `)` `tickets` `(` $tickets `:` type($tickets) `)`)?
    (`best` `(` $best^ `:` type($best) `)`)? `extent` $extent `panels` $panels `row_tile` $row_tile (`pair` $pair^)? attr-dict-with-keyword $epilogue
  }];
  let hasVerifier = 1;
}

def Kernel_AttentionOp : Kernel_Op<"attention", [
    MemoryEffects<[MemRead, MemWrite]>, DeclareOpInterfaceMethods<Kernel_ScratchOpInterface>,
    AttrSizedOperandSegments]> {
  let summary = "online-softmax attention over a paged cache";
  let description = [{
    Block j handles KV head `j mod kvHeads` and query tile `j floordiv kvHeads`: with
    `query_tile` = q, tile i of the step is the i-th of the tiles obtained by cutting each sequence's
    new tokens into pieces of q (the last one shorter); `T floordiv q + B` tiles bound their number,
    surplus blocks do nothing. All `heads / kvHeads` query heads of the KV head are computed together;
    with `head_parts` = p on the host a p-th of them, block j the part `j mod p` of KV head
    `j floordiv p mod kvHeads` and tile `j floordiv (p · kvHeads)`.

    The query at position p sees keys l with `p - window < l <= p` (window 0: l <= p). Only pages
    that hold a visible key are read; positions that are not visible are never used, whatever their
    memory holds. `q`, `out`: `[T, heads, D]`; `k_cache`: `[pages, kvHeads, D, page]` (transposed, so that
    the keys of a page lie side by side); `v_cache`: `[pages, kvHeads, page, D]`.
    `row_starts[B+1]`, `seq_lens[B]` (own tokens included), `slots[B]`, `page_table[B, P]`.
    `gpu_tile` says how a GPU kernel cuts the keys.

    With `splits` = s > 1 in `gpu_tile` (`query_tile` 1) block j handles KV head `j mod kvHeads`, split
    `j floordiv kvHeads mod s` and sequence `j floordiv (kvHeads · s)`. Of the sequence's tiles with a
    visible key, n runs of equal length (the last one shorter) go to the last n splits, so that split
    s - 1 has the newest key; the others do nothing. Each leaves its sums, maxima and outputs in
    `partials`; the last one that arrives, by a counter in `tickets`, combines them in the order of the
    keys. `tickets` are zero before and after. `q` has `s · heads` heads, a copy of the queries a split
    (so that each can make its own).

    Caches of i8 hold codes, and `scales` (of `k` if there is one, then of `v`), `[pages, kvHeads, page]`
    of f32, have what multiplies those of a position and head.

    Without `k` keys are computed from values, `rope(w ⊙ v)`: `keys_of_values` has w `[D]` and the lanes
    cos_hi, sin_hi, cos_lo, sin_lo `[512, active]` of the angle tables; the pairs (i, i + rot/2) with
    i < active are rotated by the key's position.

    Scratch on the host, with N = `query_tile` · heads / kvHeads / `head_parts` rows and n = 4 · page keys
    (512, if that is less): scores `[N, n]`, outputs `[N, D]`, maxima, sums and corrections `[N]`, all of the
    type `accumulate`, and columns of values `[n, 64]` as they are stored. With `keys_of_values` also turned queries `[N, D]` and rotated lanes of keys
    `[n, 2 active]`.

    Constraints:
    - (`attention_c1`) `q` and `out` are [T, heads, D] of floats, heads and D static and the same; with
      `splits` q has as many times the heads
    - (`attention_c2`) `k_cache` is [pages, kvHeads, D, page] and `v_cache` [pages, kvHeads, page, D], of
      one float type or i8, page that of `paging`
    - (`attention_c3`) kvHeads divides heads
    - (`attention_c4`) `row_starts`, `seq_lens` and `slots` have rank 1, `page_table` rank 2
    - (`attention_c5`) `query_tile` ≥ 1, `window` ≥ 0, `scale` is finite
    - (`attention_c6`) a ring has a window and holds it
    - (`attention_c7`) `accumulate` is f32 or f64
    - (`attention_c8`) there is either `k_cache`, or `key_parts` and `rot`
    - (`attention_c9`) `key_parts` are w [D] and four tables [512, active] of floats, `rot` is even and
      at most D, and active at most `rot` / 2
    - (`attention_c10`) with `key_parts`, `page` divides 512
    - (`attention_c11`) with `splits` = s > 1 in `gpu_tile`, and only then, there are `partials`
      [B, kvHeads, s, heads / kvHeads, D + 4] of f32 and `tickets` [sequences · kvHeads];
      `query_tile` is 1
    - (`attention_c12`) with caches of i8, and only then, there are `cache_scales`, one a cache,
      [pages, kvHeads, page] of f32; `accumulate` is f32 and there is no `gpu_tile`
    - (`attention_c13`) `head_parts` is positive, divides heads / kvHeads, and goes without `gpu_tile`

    ```mlir
    kernel.attention block %j q(%q : memref<?x4x16xf32>) k(%k : memref<?x2x16x8xbf16>)
      v(%v : memref<?x2x8x16xbf16>) out(%o : memref<?x4x16xf32>)
      batch(%row_starts, %seq_lens, %slots, %page_table
            : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x4xi32>)
      query_tile 8 window 16 scale 1.0 paging <page = 8, ring = 2> accumulate f32
    ```
  }];
  let arguments = (ins Index:$block, AnyMemRef:$q, Optional<AnyMemRef>:$k_cache,
                       Variadic<AnyMemRef>:$key_parts, AnyMemRef:$v_cache,
                       Variadic<AnyMemRef>:$cache_scales, AnyMemRef:$out,
                       MemRefOf<[I32]>:$row_starts, MemRefOf<[I32]>:$seq_lens,
                       MemRefOf<[I32]>:$slots, MemRefOf<[I32]>:$page_table,
                       Optional<AnyMemRef>:$partials, Optional<MemRefOf<[I32]>>:$tickets,
                       OptionalAttr<I64Attr>:$rot, I64Attr:$query_tile, F64Attr:$scale,
                       I64Attr:$window, Kernel_PagingAttr:$paging, TypeAttr:$accumulate,
                       OptionalAttr<I64Attr>:$head_parts,
                       OptionalAttr<Kernel_FlashAttr>:$gpu_tile);
  let assemblyFormat = [{
    `block` $block `q` `(` $q `:` type($q) `)` (`k` `(` $k_cache^ `:` type($k_cache) `)`)?
    (`keys_of_values` `(` $key_parts^ `:` type($key_parts) `)`)? (`rot` $rot^)?
    `v` `(` $v_cache `:` type($v_cache) `)`
    (`scales` `(` $cache_scales^ `:` type($cache_scales) `)`)? `out` `(` $out `:` type($out) `)`
    `batch` `(` $row_starts `,` $seq_lens `,` $slots `,` $page_table `:`
                type($row_starts) `,` type($seq_lens) `,` type($slots) `,` type($page_table) `)`
    (`partials` `(` $partials^ `:` type($partials) `)` `tickets` `(` $tickets `:` type($tickets) `)`)?
    `query_tile` $query_tile `window` $window `scale` $scale `paging` $paging
    `accumulate` $accumulate attr-dict
  }];
  let extraClassDeclaration = [{
    /// Query heads of a KV head that one block computes.
    int64_t getBlockHeads();
  }];
  let hasVerifier = 1;
}

def Kernel_TopKOp : Kernel_Op<"topk", [
    MemoryEffects<[MemRead, MemWrite]>, DeclareOpInterfaceMethods<Kernel_ScratchOpInterface>]> {
  let summary = "the k largest entries of a row, largest first, ties by the smaller index";
  let description = [{
    Block j handles row j. NaN counts as the smallest value, -0 as 0. With `best`, as kernel.contract leaves
    it, the keys of the row's tiles are looked at in place of its entries. Scratch on the host: the k best so far, `[k]`
    in f64 or f32, and their ids, `[k]` in i32.

    Constraints:
    - (`topk_c1`) `x` is [R, V] of floats with static V, and 1 ≤ k ≤ V
    - (`topk_c2`) `values` is [R, k] of the element type of `x`, `ids` [R, k]
    - (`topk_c3`) `best` is [R, G, 2], and only with k = 1

    ```mlir
    kernel.topk block %j ins(%x : memref<?x512xf32>)
      outs(%values, %ids : memref<?x4xf32>, memref<?x4xi32>) k 4
    ```
  }];
  let arguments = (ins Index:$block, AnyMemRef:$x, Optional<MemRefOf<[I32]>>:$best,
                       AnyMemRef:$values, MemRefOf<[I32]>:$ids, I64Attr:$k);
  let assemblyFormat = [{
    `block` $block `ins` `(` $x `:` type($x) `)` (`best` `(` $best^ `:` type($best) `)`)? `outs` `(` $values `,` $ids `:` type($values) `,`
    type($ids) `)` `k` $k attr-dict
  }];
  let hasVerifier = 1;
}

#endif // KERNEL_OPS_TD
