// The kernel dialect and its attributes.
#ifndef KERNEL_ATTRS_TD
#define KERNEL_ATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Kernel_Dialect : Dialect {
  let name = "kernel";
  let cppNamespace = "::gemma::kernel";
  let summary = "kernels before a target is chosen";
  let description = [{
    A `kernel.func` is a grid of blocks with no order between them. Its body is a list of core ops:
    those outside `kernel.grid` run once for every contiguous range of blocks that a worker takes
    (a hoisted prologue; on GPUs once a block too), those inside run once a block. Results pass between core ops through
    `kernel.scratch`, which is private to the worker.

    Sizes of a step, the symbols of every affine map here, always in this order: T tokens,
    B sequences, Q longest run of new tokens, S longest sequence, R selected rows.

    Memrefs may have one dynamic dimension, the first. Loads widen to the body's type, stores round
    to the memref's type (to nearest, ties to even).
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::memref::MemRefDialect"];
  let useDefaultAttributePrinterParser = 1;
}

def Kernel_Access : I32EnumAttr<"Access", "how a kernel uses an argument", [
    I32EnumAttrCase<"Read", 0, "read">, I32EnumAttrCase<"Write", 1, "write">,
    I32EnumAttrCase<"ReadWrite", 2, "readwrite">]> {
  let cppNamespace = "::gemma::kernel";
  let genSpecializedAttr = 0;
}
def Kernel_AccessAttr : EnumAttr<Kernel_Dialect, Kernel_Access, "access"> {
  let assemblyFormat = "`<` $value `>`";
}

def Kernel_Extent : I32EnumAttr<"Extent", "which size of the step counts the rows", [
    I32EnumAttrCase<"T", 0>, I32EnumAttrCase<"B", 1>, I32EnumAttrCase<"R", 2>]> {
  let cppNamespace = "::gemma::kernel";
  let genSpecializedAttr = 0;
}
def Kernel_ExtentAttr : EnumAttr<Kernel_Dialect, Kernel_Extent, "extent"> {
  let assemblyFormat = "`<` $value `>`";
}

def Kernel_PagingAttr : AttrDef<Kernel_Dialect, "Paging"> {
  let mnemonic = "paging";
  let summary = "where a position's page lies";
  let description = [{
    Pages hold `page` positions. With `ring = N`: a sequence owns N consecutive pages and position p
    lies in page `slots[b]·N + (p floordiv page) mod N`; with `ring = 0`: in page
    `page_table[b][p floordiv page]`. `#kernel.paging<page = 16, ring = 97>`

    Constraints:
    - (`paging_c1`) `page` ≥ 1
    - (`paging_c2`) `ring` ≥ 0
  }];
  let parameters = (ins "int64_t":$page, "int64_t":$ring);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kernel_LaunchAttr : AttrDef<Kernel_Dialect, "Launch"> {
  let mnemonic = "launch";
  let summary = "threads, their roles and shared memory of a block of a GPU kernel";
  let description = [{
    `#kernel.launch<threads = 128, shared = 49152>`: `shared` counts bytes of dynamic shared memory.

    The last `producers` warps of a block only copy, the others only compute. With 0, as in
    kernels for mma.sync and cp.async, all do both.

    Constraints:
    - (`launch_c1`) `threads` is a multiple of 32 in [32, 1024]
    - (`launch_c2`) `shared` ≥ 0
    - (`launch_c3`) `producers` ≥ 0, and a warp is left
  }];
  let parameters = (ins "int64_t":$threads, "int64_t":$shared,
                        DefaultValuedParameter<"int64_t", "0">:$producers);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kernel_MmaAttr : AttrDef<Kernel_Dialect, "Mma"> {
  let mnemonic = "mma";
  let summary = "tile of a contraction on tensor cores";
  let description = [{
    A block computes `rows` rows of the packed weight for `tokens` tokens; `k` columns of both (of the
    weight alone where the block prepares activations) arrive in shared memory at a time, in a ring of `stages` such steps.

    With `segments` = g > 0 the work, which is all tiles' steps of `k` columns one after the other, is cut
    into g runs of equal length, one a block (stream-K): a run may cover the end of one tile, whole tiles
    and the start of another one. `#kernel.mma<rows = 64, tokens = 32, k = 64, stages = 4, segments = 264>`

    Tiles are numbered so that those of `raster` = n tiles of tokens follow each other for one tile of rows,
    then for the next: blocks that run together share the rows of the weight, which are read from memory
    once for every n tiles of tokens.

    Constraints:
    - (`mma_c1`) `rows` is a positive multiple of 16, `tokens` of 8, `k` of 64
    - (`mma_c2`) `stages` is in [2, 8]
    - (`mma_c3`) `segments` is in [0, 65535]
    - (`mma_c4`) `raster` is in [1, 256]
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$tokens, "int64_t":$k, "int64_t":$stages,
                        DefaultValuedParameter<"int64_t", "0">:$segments,
                        DefaultValuedParameter<"int64_t", "1">:$raster);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kernel_FlashAttr : AttrDef<Kernel_Dialect, "Flash"> {
  let mnemonic = "flash";
  let summary = "tile of an attention on tensor cores";
  let description = [{
    `keys` keys are handled at a time, in tiles that begin at multiples of `keys`; a ring holds
    `stages` such tiles of K and of V in shared memory.

    With `splits` > 1 up to that many blocks share the keys of a tile of queries: each takes a run of
    consecutive tiles of keys, of equal length and at least `run` tiles.
    `#kernel.flash<keys = 64, stages = 2, splits = 16>`

    Constraints:
    - (`flash_c1`) `keys` is 16, 32, 64 or 128
    - (`flash_c2`) `stages` is in [1, 4]
    - (`flash_c3`) `splits` is in [1, 128], `run` positive
  }];
  let parameters = (ins "int64_t":$keys, "int64_t":$stages,
                        DefaultValuedParameter<"int64_t", "1">:$splits,
                        DefaultValuedParameter<"int64_t", "1">:$run);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // KERNEL_ATTRS_TD
