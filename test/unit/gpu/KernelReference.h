// What a kernel of the kernel dialect computes, in double, element by element, and how far from
// that a kernel that adds in f32 and stores bf16 may be.
//
// The bound is a running error analysis (Higham, "Accuracy and Stability of Numerical Algorithms",
// 3.3). For a contraction it comes out as
//
//   |e| <= 2^-8 |y| + 2^-20 Σ|a·b|                   (2^-8: y rounded to bf16; nothing if y is f32)
//
// and for the output o = Σ p v / Σ p of an attention, p = exp(s - max), as follows. A score is a
// contraction, |δs| <= ε = 2^-20 (scale Σ|q k| + 1 + |s| + |max|): its sum, the product with the
// scale, the difference from the maximum, the exponential. A probability is rounded to bf16 once,
// so p' = p (1 + r) with |r| <= ρ = e^ε - 1 + 2^-8. As Σ p (v - o) = 0,
//
//   o' - o = Σ p (1 + r) (v' - o) / Σ p (1 + r) = Σ p r (v - o) / Σ p (1 + r),
//   |e| <= Σ p ρ |v - o| / (Σ p (1 - ρ)) + 2^-20 Σ p |v| / Σ p + 2^-20 |o| + 2^-8 |o|:
//
// the sum of products, the division, the rounding of o. Keys that are computed from values are
// rounded once, which adds 2^-8 scale Σ|q k| to ε.
#pragma once

#include "dialect/kernel/Kernel.h"
#include "runtime/abi/KernelAbi.h"

#include "llvm/ADT/DenseMap.h"

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gemma::test {

/// A number, and the most by which the kernel's may differ.
struct Bounded {
  double value = 0, error = 0;
};

/// An argument of a launch: its elements before and after it. The same for what is only read.
struct ReferenceArgument {
  const std::byte *before = nullptr, *after = nullptr;
  size_t elements = 0;
  bool workspace = false; ///< only the launch's blocks use it: may hold anything afterwards
};

/// Evaluates a kernel for what a launch found, and compares with what it left. What a kernel wrote
/// and then reads again is taken as it wrote it, once that has been found good.
class KernelReference {
public:
  KernelReference(kernel::FuncOp kernel, std::span<const ReferenceArgument> arguments,
                  const GemmaSizes &sizes);

  /// What is wrong, or nothing: an element out of its bound, not finite, or one that changed and is
  /// none of the kernel's business. Stops at the first.
  std::string compare();
  /// Whether the kernel writes the element of the argument; after compare().
  bool writes(size_t argument, size_t element) const {
    const std::vector<bool> &written = arguments[argument].written;
    return !written.empty() && written[element];
  }
  /// Largest |difference| / bound of all elements written.
  double worst() const { return worstRatio; }

private:
  struct View {
    mlir::MemRefType type;
    llvm::SmallVector<int64_t> strides;
    ReferenceArgument memory;
    std::vector<Bounded> scratch; ///< of kernel.scratch, in place of memory
    std::vector<bool> written;
    std::string name;
  };
  using Row = std::vector<Bounded>;
  using Rows = llvm::DenseMap<mlir::Value, Row>;

  View viewOf(mlir::MemRefType type);
  View &view(mlir::Value memory) { return *views.lookup(memory); }
  size_t offset(const View &view, llvm::ArrayRef<int64_t> indices) const;
  double element(const View &view, const std::byte *data, size_t at) const;
  Bounded load(const View &view, llvm::ArrayRef<int64_t> indices);
  int64_t loadIndex(const View &view, llvm::ArrayRef<int64_t> indices);
  void store(View &view, llvm::ArrayRef<int64_t> indices, Bounded number);
  void wrong(const std::string &what) {
    if (problem.empty())
      problem = what;
  }

  int64_t extent(kernel::Extent extent) const;
  void evaluateBlock(mlir::Block &body, int64_t block);
  void evaluate(kernel::RowsOp op, int64_t block);
  void evaluate(kernel::ContractOp op, int64_t block);
  void expectBest(kernel::ContractOp op, int64_t token, int64_t begin, int64_t end);
  void evaluate(kernel::AttentionOp op, int64_t block);
  void evaluate(kernel::TopKOp op, int64_t block);
  /// The ops of a body of elementwise ops; the rows that it yields.
  std::vector<Row> evaluateBody(mlir::Block &body, Rows &rows);
  Row evaluateOp(mlir::Operation &op, Rows &rows);
  Row keyOfValues(kernel::AttentionOp op, const Row &values, int64_t position);
  void attend(kernel::AttentionOp op, int64_t token, int64_t head, std::span<const Row> keys,
              std::span<const Row> values);

  kernel::FuncOp kernel;
  std::array<int64_t, 5> sizes;
  std::vector<View> arguments;
  std::vector<std::unique_ptr<View>> scratches;
  llvm::DenseMap<mlir::Value, View *> views;
  std::string problem;
  double worstRatio = 0;
};

/// The value of an expression.
int64_t evaluateExpr(mlir::AffineExpr expr, llvm::ArrayRef<int64_t> dims,
                     llvm::ArrayRef<int64_t> symbols);

} // namespace gemma::test
