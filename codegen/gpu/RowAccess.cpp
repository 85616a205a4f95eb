#include "codegen/gpu/RowAccess.h"

#include <numeric>

using namespace mlir;

namespace gemma::codegen::cuda {

/// How many indices of one dimension a step of e within a chunk covers; nothing if that differs.
static std::optional<int64_t> strideInChunk(AffineExpr expr, int64_t width, int64_t offset) {
  if (!expr.isFunctionOfDim(elementDim))
    return 0;
  if (isa<AffineDimExpr>(expr))
    return 1;
  auto binary = cast<AffineBinaryOpExpr>(expr);
  std::optional<int64_t> lhs = strideInChunk(binary.getLHS(), width, offset);
  std::optional<int64_t> rhs = strideInChunk(binary.getRHS(), width, offset);
  if (!lhs || !rhs)
    return std::nullopt;
  if (expr.getKind() == AffineExprKind::Add)
    return *lhs + *rhs;
  auto constant = dyn_cast<AffineConstantExpr>(binary.getRHS());
  if (!constant)
    return std::nullopt;
  if (expr.getKind() == AffineExprKind::Mul)
    return *lhs * constant.getValue();
  // A chunk that lies within one period of floordiv and mod.
  MLIRContext *context = expr.getContext();
  AffineExpr start =
      binary.getLHS().replace(getAffineDimExpr(elementDim, context),
                              getAffineDimExpr(elementDim, context) * width + offset);
  bool whole = constant.getValue() % width == 0 &&
               start.getLargestKnownDivisor() % static_cast<uint64_t>(width) == 0;
  if (*lhs == 0)
    return 0;
  if (*lhs != 1 || !whole)
    return std::nullopt;
  return expr.getKind() == AffineExprKind::Mod ? 1 : 0;
}

std::optional<int64_t> RowAccess::stride(int64_t width, int64_t offset) const {
  int64_t sum = 0;
  for (auto [expr, memoryStride] : llvm::zip_equal(map.getResults(), view.strides())) {
    std::optional<int64_t> step = strideInChunk(expr, width, offset);
    if (!step)
      return std::nullopt;
    sum += *step * memoryStride;
  }
  // A chunk of a swizzled row stays together if it lies within 8 columns.
  if (swizzled && sum != 0 && (width > 8 || offset % width != 0))
    return std::nullopt;
  return sum;
}

int64_t RowAccess::alignment(int64_t width, int64_t offset) const {
  MLIRContext *context = map.getContext();
  AffineExpr e = getAffineDimExpr(elementDim, context);
  uint64_t divisor = 0;
  for (auto [expr, memoryStride] : llvm::zip_equal(map.getResults(), view.strides())) {
    AffineExpr start = simplifyAffineExpr(expr.replace(e, e * width + offset), map.getNumDims(),
                                          map.getNumSymbols());
    divisor =
        std::gcd(divisor, start.getLargestKnownDivisor() * static_cast<uint64_t>(memoryStride));
  }
  uint64_t bytes = divisor * static_cast<uint64_t>(view.elementBytes());
  uint64_t power = bytes ? bytes & (~bytes + 1) : 16;
  return static_cast<int64_t>(std::min<uint64_t>(power, 16));
}

} // namespace gemma::codegen::cuda
