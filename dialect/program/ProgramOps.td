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
    `#program.layout<plain>`-like struct: `panel = 16, kpack = 2, interleave = 2` packs rows in panels of
    16 with 2 consecutive k side by side; interleave = 2 alternates panels of the first and the second
    half of the rows (gate, up). panel = 0 keeps the row-major order.
  }];
  let parameters = (ins "int64_t":$panel, "int64_t":$kpack, "int64_t":$interleave);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Program_WeightOp : Program_Op<"weight", [Symbol]> {
  let summary = "a weight and the recipe that makes it from the checkpoint";
  let description = [{
    The logical tensor is the concatenation of the source tensors along the first dimension (canonical
    names, see runtime/checkpoint/TensorTable.h). Its element type is the storage type. `layout` is set when kernels are
    made; `packed` is then the memref that kernels see.

    ```mlir
    program.weight @l3.qkv : tensor<8192x3840xbf16> from ["layers.3.self_attn.q_proj.weight", ...]
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

def Program_CacheOp : Program_Op<"cache", [Symbol]> {
  let summary = "the key/value cache of one layer";
  let description = [{
    Positions lie in pages of `page`. `ring_pages` (rings) is set by planning: window + max_chunk - 1
    positions rounded up to pages. Lanes "k" and "v" are stored as `[pages, heads, dim, page]` and
    `[pages, heads, page, dim]`.

    ```mlir
    program.cache @c3 ring heads 8 dim 256 elem bf16 window 1024 page 16 {ring_pages = 96}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Program_CacheKind:$kind, I64Attr:$heads,
                       I64Attr:$dim, TypeAttr:$elem, I64Attr:$window, I64Attr:$page,
                       OptionalAttr<I64Attr>:$ring_pages);
  let assemblyFormat = [{
    $sym_name $kind `heads` $heads `dim` $dim `elem` $elem `window` $window `page` $page attr-dict
  }];
  let hasVerifier = 1;
}

def Program_TableOp : Program_Op<"table", [Symbol]> {
  let summary = "two-level angle tables of one rope";
  let description = [{
    Four lanes `[512, active]`: "cos_hi", "sin_hi" hold angles of positions 512·i, "cos_lo", "sin_lo" those of
    positions i; position p is the complex product of hi[p floordiv 512] and lo[p mod 512]. Made at
    load in 80-bit arithmetic: angle(p, i) = p · theta^(-2i/denom).
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, F64Attr:$theta, I64Attr:$denom, I64Attr:$active,
                       TypeAttr:$elem);
  let assemblyFormat = "$sym_name `theta` $theta `denom` $denom `active` $active `elem` $elem attr-dict";
}

//===----------------------------------------------------------------------===//
// A launch list
//===----------------------------------------------------------------------===//

def Program_VariantOp : Program_Op<"variant", [Symbol, NoTerminator, SingleBlock,
                                               NoRegionArguments]> {
  let summary = "one launch list and the sizes it is for";
  let description = [{
    The first variant whose condition (an integer set over the sizes) holds runs. `arena` is the number of
    bytes of its buffers, set by memory planning.

    ```mlir
    program.variant @decode target "host" when affine_set<()[T, B, Q, S, R] : (8 - T >= 0, 1 - Q >= 0)> {
      %0 = program.buffer : memref<?x96xf32>
      ...
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$target, IntegerSetAttr:$condition,
                       OptionalAttr<I64Attr>:$arena);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `target` $target `when` $condition attr-dict-with-keyword $body";
}

def Program_InputOp : Program_Op<"input", [Pure]> {
  let summary = "an array that the runtime fills before a step";
  let description = [{
    Names: tokens[T], positions[T], ring_pages[T] and pages[T] (the page of each token's position in the
    rings and in the paged caches), row_starts[B+1], seq_lens[B], slots[B], page_table[B, P],
    logit_rows[R].
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs MemRefOf<[I32]>:$memory);
  let assemblyFormat = "$name attr-dict `:` type($memory)";
  let hasVerifier = 1;
}

def Program_OutputOp : Program_Op<"output", [Pure]> {
  let summary = "an array that a step gives back: logits[R, V], or a node's output by name";
  let arguments = (ins StrAttr:$name);
  let results = (outs AnyMemRef:$memory);
  let assemblyFormat = "$name attr-dict `:` type($memory)";
}

def Program_RefOp : Program_Op<"ref", [Pure]> {
  let summary = "a weight, a lane of a cache, or a lane of a table, as memory";
  let arguments = (ins FlatSymbolRefAttr:$symbol, OptionalAttr<StrAttr>:$lane);
  let results = (outs AnyMemRef:$memory);
  let assemblyFormat = "$symbol (`lane` $lane^)? attr-dict `:` type($memory)";
}

def Program_BufferOp : Program_Op<"buffer", [MemoryEffects<[MemAlloc]>]> {
  let summary = "bytes of the arena";
  let description = [{
    The dynamic first dimension has the extent that `extent` names ("T", "B" or "R"); planning takes its largest value.
    `offset` (bytes, a multiple of 64) is set by memory planning.
  }];
  let arguments = (ins OptionalAttr<StrAttr>:$extent, OptionalAttr<I64Attr>:$offset);
  let results = (outs AnyMemRef:$memory);
  let assemblyFormat = "(`extent` $extent^)? (`offset` $offset^)? attr-dict `:` type($memory)";
}

def Program_ViewOp : Program_Op<"view", [Pure]> {
  let summary = "part of each row of a buffer, reshaped";
  let description = [{
    Row t of the result begins `offset` elements after row t of the source; the result has the source's
    row stride: `memref<?x8192xf32>` to `memref<?x8x256xf32, strided<[8192, 256, 1]>>`.
  }];
  let arguments = (ins AnyMemRef:$source, I64Attr:$offset);
  let results = (outs AnyMemRef:$memory);
  let assemblyFormat = "$source `at` $offset attr-dict `:` type($source) `to` type($memory)";
  let hasVerifier = 1;
}

def Program_LaunchOp : Program_Op<"launch", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "runs a kernel on these arguments";
  let description = [{
    The grid is the kernel's. The location names the spec nodes (a fused location lists them). A written
    argument may not overlap any other argument.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyMemRef>:$arguments);
  let assemblyFormat = "$kernel `(` $arguments `)` attr-dict `:` type($arguments)";
}

#endif // PROGRAM_OPS_TD
