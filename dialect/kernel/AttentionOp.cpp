// kernel.attention: its verifier and its scratch.
#include "dialect/kernel/CoreOps.h"

using namespace mlir;
using namespace gemma::kernel;

/// As isRowsOfFloats(), of i8.
static bool isRowsOfCodes(Type type, int64_t rank) {
  auto memref = dyn_cast<MemRefType>(type);
  return memref && memref.getRank() == rank && memref.getElementType().isSignlessInteger(8) &&
         llvm::all_of(memref.getShape().drop_front(), [](int64_t size) { return size > 0; });
}

static LogicalResult verifyKeyParts(AttentionOp op, int64_t dim, int64_t page) {
  // attention_c9
  auto isFloats = [](Type type, ArrayRef<int64_t> shape) {
    auto memory = dyn_cast<MemRefType>(type);
    return memory && isa<FloatType>(memory.getElementType()) && memory.getShape() == shape;
  };
  OperandRange parts = op.getKeyParts();
  auto rot = op.getRotAttr().getInt();
  auto table = dyn_cast<MemRefType>(parts.back().getType());
  int64_t active = table && table.getRank() == 2 ? table.getDimSize(1) : 0;
  if (parts.size() != 5 || rot < 2 || rot > dim || rot % 2 != 0 || active < 1 || active > rot / 2 ||
      !isFloats(parts.front().getType(), {dim}) ||
      !llvm::all_of(parts.drop_front(),
                    [&](Value part) { return isFloats(part.getType(), {512, active}); }))
    return op.emitOpError()
           << "expected keys_of_values of w [" << dim
           << "] and four tables [512, active], active <= rot / 2, and an even rot "
              "<= "
           << dim << ", got " << parts.getTypes() << " and rot " << rot;
  // attention_c10
  if (page < 1 || 512 % page != 0)
    return op.emitOpError() << "expected a page that divides 512, got " << page;
  return success();
}

LogicalResult AttentionOp::verify() {
  // attention_c1
  auto q = dyn_cast<MemRefType>(getQ().getType()), out = dyn_cast<MemRefType>(getOut().getType());
  for (Type type : {getQ().getType(), getOut().getType()})
    if (!isRowsOfFloats(type, 3))
      return emitOpError() << "expected q and out of [T, heads, D] floats, got " << type;
  int64_t splits = getGpuTile() ? getGpuTileAttr().getSplits() : 1;
  if (q.getDimSize(1) != splits * out.getDimSize(1) || q.getDimSize(2) != out.getDimSize(2))
    return emitOpError() << "expected q and out of the same heads and D"
                         << (splits > 1 ? ", the heads of q once a split" : "") << ", got " << q
                         << " and " << out;
  int64_t heads = out.getDimSize(1), dim = q.getDimSize(2), page = getPaging().getPage();
  // attention_c8
  if (getKCache() ? !getKeyParts().empty() || getRot() : getKeyParts().empty() || !getRot())
    return emitOpError() << "expected either k, or keys_of_values and rot";
  // attention_c2
  auto v = dyn_cast<MemRefType>(getVCache().getType());
  auto k = getKCache() ? dyn_cast<MemRefType>(getKCache().getType()) : MemRefType();
  for (Value cache : {getKCache(), getVCache()})
    if (cache && !isRowsOfFloats(cache.getType(), 4) && !isRowsOfCodes(cache.getType(), 4))
      return emitOpError() << "expected caches of rank 4 and floats or i8, got " << cache.getType();
  int64_t kvHeads = v.getDimSize(1);
  if (!k && v.getShape().drop_front() != ArrayRef<int64_t>{kvHeads, page, dim})
    return emitOpError() << "expected a cache [pages, kvHeads, " << page << ", " << dim << "], got "
                         << v;
  if (k && (k.getElementType() != v.getElementType() ||
            k.getShape().drop_front() != ArrayRef<int64_t>{kvHeads, dim, page} ||
            v.getShape().drop_front() != ArrayRef<int64_t>{kvHeads, page, dim}))
    return emitOpError() << "expected caches [pages, kvHeads, " << dim << ", " << page
                         << "] and [pages, kvHeads, " << page << ", " << dim << "], got " << k
                         << " and " << v;
  if (!k && failed(verifyKeyParts(*this, dim, page)))
    return failure();
  // attention_c3
  if (heads % kvHeads != 0)
    return emitOpError() << "expected KV heads that divide " << heads << " heads, got " << kvHeads;
  // attention_c4
  for (Value memory : {getRowStarts(), getSeqLens(), getSlots()})
    if (cast<MemRefType>(memory.getType()).getRank() != 1)
      return emitOpError() << "expected row_starts, seq_lens and slots of rank 1, got "
                           << memory.getType();
  if (cast<MemRefType>(getPageTable().getType()).getRank() != 2)
    return emitOpError() << "expected a page_table of rank 2, got " << getPageTable().getType();
  // attention_c5
  auto queryTile = static_cast<int64_t>(getQueryTile()), window = static_cast<int64_t>(getWindow());
  if (queryTile < 1 || window < 0)
    return emitOpError() << "expected query_tile >= 1 and window >= 0, got " << queryTile << " and "
                         << window;
  if (!getScale().isFinite())
    return emitOpError() << "expected a finite scale, got " << getScaleAttr();
  // attention_c6: divided, because a product could overflow
  int64_t ring = getPaging().getRing();
  if (ring > 0 &&
      (window == 0 || ring < static_cast<int64_t>(llvm::divideCeil(static_cast<uint64_t>(window),
                                                                   static_cast<uint64_t>(page)))))
    return emitOpError() << "expected a window that " << ring << " pages of " << page
                         << " hold, got " << window;
  // attention_c7
  if (!isAccumulator(getAccumulate()))
    return emitOpError() << "expected to accumulate in f32 or f64, got " << getAccumulate();
  // attention_c12
  bool coded = v.getElementType().isSignlessInteger(8);
  auto isScales = [&](Value scales) {
    auto memory = dyn_cast<MemRefType>(scales.getType());
    return memory && memory.getElementType().isF32() && memory.getRank() == 3 &&
           memory.getShape().drop_front() == ArrayRef<int64_t>{kvHeads, page};
  };
  if (getCacheScales().size() != (coded ? k ? 2U : 1U : 0U) ||
      !llvm::all_of(getCacheScales(), isScales) ||
      (coded && (!getAccumulate().isF32() || getGpuTile())))
    return emitOpError() << "expected scales [pages, " << kvHeads << ", " << page
                         << "] of f32 for each cache of i8 and no others, accumulated in f32 and "
                            "without gpu_tile, got "
                         << getCacheScales().getTypes();
  // attention_c13
  if (std::optional<uint64_t> parts = getHeadParts();
      parts && (static_cast<int64_t>(*parts) < 1 ||
                heads / kvHeads % static_cast<int64_t>(*parts) != 0 || getGpuTile()))
    return emitOpError() << "expected head_parts that divide " << heads / kvHeads
                         << " heads, without gpu_tile, got " << getHeadPartsAttr();
  // attention_c11
  if (splits > 1 && queryTile != 1)
    return emitOpError() << "expected query_tile 1 with splits, got " << queryTile;
  return verifyWorkspace(*this, getPartials(), getTickets(), splits > 1,
                         {ShapedType::kDynamic, kvHeads, splits, heads / kvHeads, dim + 4},
                         kvHeads);
}

int64_t AttentionOp::getBlockHeads() {
  int64_t group = cast<MemRefType>(getOut().getType()).getDimSize(1) /
                  cast<MemRefType>(getVCache().getType()).getDimSize(1);
  return group / static_cast<int64_t>(getHeadParts().value_or(1));
}

SmallVector<MemRefType> AttentionOp::getScratchBlocks() {
  int64_t dim = cast<MemRefType>(getQ().getType()).getDimSize(2), page = getPaging().getPage();
  int64_t rows = static_cast<int64_t>(getQueryTile()) * getBlockHeads();
  int64_t keys = std::max(page, std::min<int64_t>(4 * page, 512 / page * page));
  Type type = getAccumulate();
  SmallVector<MemRefType> blocks = {
      MemRefType::get({rows, keys}, type),
      MemRefType::get({rows, dim}, type),
      MemRefType::get({rows}, type),
      MemRefType::get({rows}, type),
      MemRefType::get({rows}, type),
      MemRefType::get({keys, 64}, getElementTypeOrSelf(getVCache().getType()))};
  if (getKCache())
    return blocks;
  int64_t active = cast<MemRefType>(getKeyParts().back().getType()).getDimSize(1);
  blocks.push_back(MemRefType::get({rows, dim}, type));
  blocks.push_back(MemRefType::get({keys, 2 * active}, type));
  return blocks;
}
