// The program dialect: what runs on which bytes.
#ifndef PROGRAM_OPS_TD
#define PROGRAM_OPS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ViewLikeInterface.td"

def Program_Dialect : Dialect {
  let name = "program";
  let cppNamespace = "::gemma::program";
  let summary = "launch lists, buffers, caches and weights";
  let description = [{
    A program is data: it is serialised one to one into the artifact's manifest and executed by the
    runtime. No host code is generated from it.

    Every affine map and set has no dimensions and the symbols T, B, Q, S, R, in this order.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect"];
  let useDefaultAttributePrinterParser = 1;
}

class Program_Op<string mnemonic, list<Trait> traits = []> : Op<Program_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

def Program_LayoutAttr : AttrDef<Program_Dialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "how the packer lays a weight out";
  let description = [{
    Three families, of which dialect/program/Layout.h gives the memrefs:
    - `panel = 0`: the row-major order;
    - `panel = 16`, for vector units: panels of 16 rows with `kpack` consecutive k side by side;
      with `kpack = 4` the elements are i8 or i4, in groups of 32 k, and the groups' scales lie behind
      them;
    - `panel = 8, kpack = 64`, for tensor cores: k blocks of 64, in each of them panels of 8 rows, a
      row's eight chunks of 8 elements swizzled (chunk c of row r lies at place c xor r), so that any
      8·n rows of a k block are one contiguous copy which `ldmatrix` and `wgmma` read without bank
      conflicts.

    interleave = 2 alternates panels of the first and the second half of the rows (gate, up).

    Constraints:
    - (`layout_c1`) `panel` is 0, 8 or 16
    - (`layout_c2`) `kpack` is 1 without panels, 64 with panels of 8, 1, 2 or 4 with panels of 16
    - (`layout_c3`) `interleave` is 1 or 2; 1 without panels
  }];
  let parameters = (ins "int64_t":$panel, "int64_t":$kpack, "int64_t":$interleave);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Program_WeightOp : Program_Op<"weight", [Symbol]> {
  let summary = "a weight and the recipe that makes it from the checkpoint";
  let description = [{
    The logical tensor is the concatenation of the source tensors along the first dimension (canonical
    names, see runtime/checkpoint/TensorTable.h). Its element type is the storage type. `layout` is set when kernels are
    made; `packed` is then the memref that kernels see.

    Constraints:
    - (`weight_c1`) the type has rank 1 or 2, static positive sizes, and elements of f64, f32, bf16
      or f16, with rank 2 also of i8 or i4
    - (`weight_c2`) there is a source, and none has an empty name
    - (`weight_c3`) `layout` fits the type: panels need rank 2, interleaving an even number of rows;
      i8 and i4 need `kpack` 4, and nothing else has it
    - (`weight_c4`) `packed` comes with `layout` and is the memref that it gives

    ```mlir
    program.weight @l3.qkv : tensor<8192x3840xbf16> from ["layers.3.self_attn.q_proj.weight"]
      layout <panel = 16, kpack = 2, interleave = 1> packed memref<512x1920x16x2xbf16>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type,
                       StrArrayAttr:$sources, OptionalAttr<Program_LayoutAttr>:$layout,
                       OptionalAttr<TypeAttr>:$packed);
  let assemblyFormat = [{
    $sym_name `:` $type `from` $sources (`layout` $layout^)? (`packed` $packed^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Program_CacheKind : I32EnumAttr<"CacheKind", "how positions find their page", [
    I32EnumAttrCase<"Ring", 0, "ring">, I32EnumAttrCase<"Paged", 1, "paged">]> {
  let cppNamespace = "::gemma::program";
}

def Program_CacheLanes : I32EnumAttr<"CacheLanes", "what a cache stores of a position", [
    I32EnumAttrCase<"KeysAndValues", 0, "k, v">, I32EnumAttrCase<"Values", 1, "v">]> {
  let cppNamespace = "::gemma::program";
}

def Program_CacheOp : Program_Op<"cache", [Symbol]> {
  let summary = "the key/value cache of one layer";
  let description = [{
    Positions lie in pages of `page`. `ring_pages` (rings) is set by planning: window + max_chunk - 1
    positions rounded up to pages. Lanes "k" and "v" are stored as `[pages, heads, dim, page]` and
    `[pages, heads, page, dim]`; lanes `[v]` alone where the keys can be computed from the values.
    With `elem` i8 these are codes in [-127, 127], and lanes "k_scales" and "v_scales" of f32,
    `[pages, heads, page]`, have what multiplies those of a position and head.

    Constraints:
    - (`cache_c1`) `heads`, `dim` and `page` are positive
    - (`cache_c2`) `elem` is f64, f32, bf16, f16 or i8
    - (`cache_c3`) a ring has a positive window, a paged cache window 0
    - (`cache_c4`) only a ring has `ring_pages`, and they hold the window
    - (`cache_c5`) `lanes` is [k, v], which need not be written, or [v]

    ```mlir
    program.cache @c3 ring heads 8 dim 256 lanes [k, v] elem bf16 window 1024 page 16 {ring_pages = 96}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Program_CacheKind:$kind, I64Attr:$heads,
                       I64Attr:$dim, TypeAttr:$elem, I64Attr:$window, I64Attr:$page,
                       OptionalAttr<I64Attr>:$ring_pages,
                       DefaultValuedAttr<Program_CacheLanes, "::gemma::program::CacheLanes::KeysAndValues">:$lanes);
  let assemblyFormat = [{
    $sym_name $kind `heads` $heads `dim` $dim custom<CacheLanes>($lanes) `elem` $elem `window` $window
    `page` $page attr-dict
  }];
  let extraClassDeclaration = [{
    /// Whether keys are stored beside the values.
    bool hasKeys() { return getLanes() == CacheLanes::KeysAndValues; }
    /// Whether keys and values are codes with scales.
    bool hasScales() { return getElem().isSignlessInteger(8); }
    /// The memory of a lane; null if the cache has none of this name.
    ::mlir::MemRefType laneType(::llvm::StringRef lane);
  }];
  let hasVerifier = 1;
}

def Program_TableOp : Program_Op<"table", [Symbol]> {
  let summary = "two-level angle tables of one rope";
  let description = [{
    Four lanes `[512, active]`: "cos_hi", "sin_hi" hold angles of positions 512·i, "cos_lo", "sin_lo" those of
    positions i; position p is the complex product of hi[p floordiv 512] and lo[p mod 512]. Made at
    load in 80-bit arithmetic: angle(p, i) = p · theta^(-2i/denom).

    Constraints:
    - (`table_c1`) `theta` is positive and finite
    - (`table_c2`) `denom` and `active` are positive
    - (`table_c3`) `elem` is f64 or f32

    ```mlir
    program.table @angles theta 1.0e4 denom 256 active 128 elem f32
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, F64Attr:$theta, I64Attr:$denom, I64Attr:$active,
                       TypeAttr:$elem);
  let assemblyFormat = "$sym_name `theta` $theta `denom` $denom `active` $active `elem` $elem attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// A launch list
//===----------------------------------------------------------------------===//

def Program_VariantOp : Program_Op<"variant", [IsolatedFromAbove, Symbol, NoTerminator, SingleBlock,
                                               NoRegionArguments]> {
  let summary = "one launch list and the sizes it is for";
  let description = [{
    The first variant whose condition (an integer set over the sizes) holds runs. `arena` is the number of
    bytes of its buffers, set by memory planning.

    Constraints:
    - (`variant_c1`) the condition has no dimensions and the five symbols T, B, Q, S, R
    - (`variant_c2`) `arena` ≥ 0
    - (`variant_c3`) the body holds ops of the program dialect only

    ```mlir
    program.variant @decode target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
      %0 = program.buffer extent "T" : memref<?x96xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$target, IntegerSetAttr:$condition,
                       OptionalAttr<I64Attr>:$arena);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `target` $target `when` $condition attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Program_InputOp : Program_Op<"input", [Pure]> {
  let summary = "an array that the runtime fills before a step";
  let description = [{
    Names: tokens[T], positions[T], ring_pages[T] and pages[T] (the page of each token's position in the
    rings and in the paged caches), row_starts[B+1], seq_lens[B], slots[B], page_table[B, P],
    logit_rows[R].

    Constraints:
    - (`input_c1`) `name` is one of those
    - (`input_c2`) page_table has rank 2, the others rank 1

    ```mlir
    %0 = program.input "tokens" : memref<?xi32>
    ```
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs MemRefOf<[I32]>:$memory);
  let assemblyFormat = "$name attr-dict `:` type($memory)";
  let hasVerifier = 1;
}

def Program_OutputOp : Program_Op<"output", [Pure]> {
  let summary = "an array that a step gives back: logits[R, V], or a node's output by name";
  let description = [{
    Constraints:
    - (`output_c1`) `name` is not empty

    ```mlir
    %0 = program.output "logits" : memref<?x512xf32>
    ```
  }];
  let hasVerifier = 1;
  let arguments = (ins StrAttr:$name);
  let results = (outs AnyMemRef:$memory);
  let assemblyFormat = "$name attr-dict `:` type($memory)";
}

def Program_RefOp : Program_Op<"ref", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a weight, a lane of a cache, or a lane of a table, as memory";
  let description = [{
    Constraints:
    - (`ref_c1`) `symbol` names a `program.weight`, `program.cache` or `program.table`
    - (`ref_c2`) of a weight: no lane; the memory is the weight's `packed` type, or row-major without;
      or lane "scales" of `[panels, groups, 16]` f16 of one with i8 or i4 elements
    - (`ref_c3`) of a cache: lane "k" of `[?, heads, dim, page]` or "v" of `[?, heads, page, dim]`,
      whichever of them it stores; of one of i8 also "k_scales" and "v_scales" of `[?, heads, page]`
    - (`ref_c4`) of a table: lane "cos_hi", "sin_hi", "cos_lo" or "sin_lo" of `[512, active]`

    ```mlir
    %0 = program.ref @c4 lane "k" : memref<?x8x256x16xbf16>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$symbol, OptionalAttr<StrAttr>:$lane);
  let results = (outs AnyMemRef:$memory);
  let assemblyFormat = "$symbol (`lane` $lane^)? attr-dict `:` type($memory)";
}

def Program_BufferOp : Program_Op<"buffer", [MemoryEffects<[MemAlloc]>]> {
  let summary = "bytes of the arena";
  let description = [{
    The dynamic first dimension has the extent that `extent` names ("T", "B" or "R"); planning takes its largest value.
    `offset` (bytes, a multiple of 64) is set by memory planning. A `workspace` is between the blocks of
    one launch: it brings nothing into it and takes nothing out.

    Constraints:
    - (`buffer_c1`) the first dimension is dynamic if and only if there is an `extent`; the others
      are static
    - (`buffer_c2`) `extent` is "T", "B" or "R"
    - (`buffer_c3`) `offset` is a multiple of 64, not negative

    ```mlir
    %0 = program.buffer extent "T" offset 128 : memref<?x96xf32>
    ```
  }];
  let arguments = (ins OptionalAttr<StrAttr>:$extent, OptionalAttr<I64Attr>:$offset,
                       UnitAttr:$workspace);
  let results = (outs AnyMemRef:$memory);
  let assemblyFormat = "(`workspace` $workspace^)? (`extent` $extent^)? (`offset` $offset^)? attr-dict `:` type($memory)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Bytes at the largest sizes that a step may have.
    int64_t getLargestBytes(const ::gemma::program::LargestSizes &sizes);
  }];
}

def Program_TicketsOp : Program_Op<"tickets", [Pure]> {
  let summary = "counters with which the blocks of a launch find out who is last";
  let description = [{
    One region of the program, which launches use from its start one after the other: zero when a launch
    starts, and zero again when it ends, which its kernel sees to. Nothing else lies in it.

    Constraints:
    - (`tickets_c1`) the memory has rank 1, a static size and no layout

    ```mlir
    %0 = program.tickets : memref<264xi32>
    ```
  }];
  let results = (outs MemRefOf<[I32]>:$memory);
  let assemblyFormat = "attr-dict `:` type($memory)";
  let hasVerifier = 1;
}

def Program_ViewOp : Program_Op<"view", [Pure]> {
  let summary = "part of each row of a buffer, reshaped";
  let description = [{
    Row t of the result begins `offset` elements after row t of the source; the result has the source's
    row stride: `memref<?x8192xf32>` to `memref<?x8x256xf32, strided<[8192, 256, 1]>>`.

    Constraints:
    - (`view_c1`) source and result have the same element type and the same number of rows
    - (`view_c2`) the result has the source's row stride, and layout offset 0
    - (`view_c3`) the elements of a row lie side by side, in the source and in the result
    - (`view_c4`) the part lies within the source's row

    ```mlir
    %k = program.view %qkv at 4096 : memref<?x8192xf32> to memref<?x8x256xf32, strided<[8192, 256, 1]>>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, I64Attr:$offset);
  let results = (outs AnyMemRef:$memory);
  let assemblyFormat = "$source `at` $offset attr-dict `:` type($source) `to` type($memory)";
  let hasVerifier = 1;
}

def Program_LaunchOp : Program_Op<"launch", [MemoryEffects<[MemRead, MemWrite]>,
                                             DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel on these arguments";
  let description = [{
    The grid is the kernel's. The location names the spec nodes (a fused location lists them). A written
    argument may not overlap any other argument. A kernel gets addresses only: strides and sizes are
    those of its own types.

    Constraints:
    - (`launch_c1`) `kernel` names a `kernel.func`
    - (`launch_c2`) there are as many arguments as the kernel has
    - (`launch_c3`) each argument has the kernel's element type, rank, strides and known sizes
    - (`launch_c4`) a written argument shares no memory with another one (of one buffer, input,
      output, or symbol; that buffers are apart is the arena verifier's)

    ```mlir
    program.launch @k0(%x, %w, %y) : memref<?x96xf32>, memref<96xf32>, memref<?x96xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyMemRef>:$arguments);
  let assemblyFormat = "$kernel `(` $arguments `)` attr-dict `:` type($arguments)";
}

#endif // PROGRAM_OPS_TD
