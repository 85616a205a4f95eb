// Verifiers of weights, caches and tables, and of references to them.
#include "dialect/program/Layout.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace gemma::program;

static bool isStorageType(Type type) {
  return type.isF64() || type.isF32() || type.isBF16() || type.isF16();
}

LogicalResult LayoutAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t panel,
                                 int64_t kpack, int64_t interleave) {
  // layout_c1
  if (panel != 0 && panel != 8 && panel != 16)
    return emitError() << "expected panel 0, 8 or 16, got " << panel;
  // layout_c2
  bool fits = panel == 8 ? kpack == 64 : kpack == 1 || (panel == 16 && (kpack == 2 || kpack == 4));
  if (!fits)
    return emitError() << "expected kpack "
                       << (panel == 8    ? "64"
                           : panel == 16 ? "1, 2 or 4"
                                         : "1")
                       << " with panel " << panel << ", got " << kpack;
  // layout_c3
  if (interleave != 1 && (interleave != 2 || panel == 0))
    return emitError() << "expected interleave 1" << (panel ? " or 2" : "") << ", got "
                       << interleave;
  return success();
}

LogicalResult WeightOp::verify() {
  // weight_c1
  auto type = cast<RankedTensorType>(getType());
  if (type.getRank() < 1 || type.getRank() > 2 ||
      llvm::any_of(type.getShape(), [](int64_t size) { return size <= 0; }) ||
      (!isStorageType(type.getElementType()) &&
       !(type.getRank() == 2 && isQuantised(type.getElementType()))))
    return emitOpError()
           << "expected a [N] or [N, K] tensor of floats, or a [N, K] one of i8 or i4, "
              "with static sizes, got "
           << type;
  // weight_c2
  if (getSources().empty() || llvm::any_of(getSources().getAsValueRange<StringAttr>(),
                                           [](StringRef source) { return source.empty(); }))
    return emitOpError() << "expected names of source tensors, got " << getSources();
  // weight_c3
  std::optional<LayoutAttr> layout = getLayout();
  MemRefType expected = layout ? packedType(type, *layout) : MemRefType();
  if (layout && !expected)
    return emitOpError() << "expected a layout that fits " << type << ", got " << *layout;
  // weight_c4
  std::optional<Type> packed = getPacked();
  if (packed && !layout)
    return emitOpError() << "expected a layout beside the packed type " << *packed;
  if (packed && *packed != expected)
    return emitOpError() << "expected the packed type " << expected << ", got " << *packed;
  return success();
}

MemRefType CacheOp::laneType(StringRef lane) {
  auto heads = static_cast<int64_t>(getHeads()), dim = static_cast<int64_t>(getDim()),
       page = static_cast<int64_t>(getPage());
  constexpr int64_t pages = ShapedType::kDynamic;
  bool stored = lane.starts_with("v") || hasKeys();
  if (stored && lane == "k")
    return MemRefType::get({pages, heads, dim, page}, getElem());
  if (lane == "v")
    return MemRefType::get({pages, heads, page, dim}, getElem());
  if (stored && hasScales() && (lane == "k_scales" || lane == "v_scales"))
    return MemRefType::get({pages, heads, page}, Float32Type::get(getContext()));
  return {};
}

LogicalResult CacheOp::verify() {
  auto heads = static_cast<int64_t>(getHeads()), dim = static_cast<int64_t>(getDim()),
       page = static_cast<int64_t>(getPage()), window = static_cast<int64_t>(getWindow());
  // cache_c1
  if (heads < 1 || dim < 1 || page < 1)
    return emitOpError() << "expected positive heads, dim and page, got " << heads << ", " << dim
                         << " and " << page;
  // cache_c2
  if (!isStorageType(getElem()) && !hasScales())
    return emitOpError() << "expected elem f64, f32, bf16, f16 or i8, got " << getElem();
  // cache_c3
  bool ring = getKind() == CacheKind::Ring;
  if (ring ? window < 1 : window != 0)
    return emitOpError() << "expected " << (ring ? "a ring of window >= 1" : "window 0 of pages")
                         << ", got " << window;
  // cache_c4
  std::optional<uint64_t> ringPages = getRingPages();
  if (!ringPages)
    return success();
  if (!ring)
    return emitOpError() << "expected no ring_pages without a ring";
  auto pages = static_cast<int64_t>(*ringPages);
  if (pages < 0 || static_cast<uint64_t>(pages) <
                       llvm::divideCeil(static_cast<uint64_t>(window), static_cast<uint64_t>(page)))
    return emitOpError() << "expected ring_pages that hold " << window << " positions, got "
                         << pages << " pages of " << page;
  return success();
}

LogicalResult TableOp::verify() {
  // table_c1
  const APFloat &theta = getTheta();
  if (!theta.isFinite() || theta.isNegative() || theta.isZero())
    return emitOpError() << "expected a positive finite theta, got " << getThetaAttr();
  // table_c2
  auto denom = static_cast<int64_t>(getDenom()), active = static_cast<int64_t>(getActive());
  if (denom < 1 || active < 1)
    return emitOpError() << "expected positive denom and active, got " << denom << " and "
                         << active;
  // table_c3
  if (!getElem().isF64() && !getElem().isF32())
    return emitOpError() << "expected elem f64 or f32, got " << getElem();
  return success();
}

/// The memory is exactly `expected`.
static LogicalResult verifyMemory(RefOp op, MemRefType expected) {
  if (op.getMemory().getType() == expected)
    return success();
  return op.emitOpError() << "expected memory " << expected << ", got " << op.getMemory().getType();
}

LogicalResult RefOp::verifySymbolUses(SymbolTableCollection &symbols) {
  StringRef lane = getLane().value_or("");
  Operation *target = symbols.lookupNearestSymbolFrom(*this, getSymbolAttr());
  // ref_c2
  if (auto weight = dyn_cast_or_null<WeightOp>(target)) {
    auto logical = dyn_cast<RankedTensorType>(weight.getType());
    if (!logical)
      return emitOpError() << "expected a weight of tensor type, got " << weight.getType();
    if (getLane()) {
      auto codes = dyn_cast_or_null<MemRefType>(weight.getPacked().value_or(Type()));
      if (lane != "scales" || !codes || !isQuantised(logical.getElementType()))
        return emitOpError()
               << "expected no lane of a weight, but scales of a packed one of i8 or i4, "
                  "got \""
               << lane << "\"";
      return verifyMemory(*this, scalesType(codes));
    }
    if (std::optional<Type> packed = weight.getPacked())
      return verifyMemory(*this, dyn_cast<MemRefType>(*packed));
    return verifyMemory(*this, MemRefType::get(logical.getShape(), logical.getElementType()));
  }
  // ref_c3
  if (auto cache = dyn_cast_or_null<CacheOp>(target)) {
    if (MemRefType memory = cache.laneType(lane))
      return verifyMemory(*this, memory);
    if (lane == "k" || (lane == "k_scales" && cache.hasScales()))
      return emitOpError() << "expected lane \"v\" of a cache of values alone, got \"" << lane
                           << "\"";
    return emitOpError() << "expected lane \"k\" or \"v\""
                         << (cache.hasScales() ? ", \"k_scales\" or \"v_scales\"" : "")
                         << ", got \"" << lane << "\"";
  }
  // ref_c4
  if (auto table = dyn_cast_or_null<TableOp>(target)) {
    if (lane != "cos_hi" && lane != "sin_hi" && lane != "cos_lo" && lane != "sin_lo")
      return emitOpError() << "expected lane cos_hi, sin_hi, cos_lo or sin_lo, got \"" << lane
                           << "\"";
    return verifyMemory(
        *this, MemRefType::get({512, static_cast<int64_t>(table.getActive())}, table.getElem()));
  }
  // ref_c1
  return emitOpError() << "expected " << getSymbolAttr()
                       << " to name a program.weight, program.cache or program.table";
}
