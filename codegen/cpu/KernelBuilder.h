// What the lowerings of all core ops share: an op builder that knows the instruction set, the
// kernel's arguments as memrefs, the step's sizes, and the conversions between stored and computed
// types.
#pragma once

#include "codegen/cpu/HostIsa.h"
#include "dialect/kernel/Kernel.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace gemma::codegen {

/// A kernel argument or scratch as the emitted code sees it. 16-bit floats are stored as i16, so
/// that no LLVM type needs a conversion routine that the instruction set may lack.
struct View {
  mlir::Value memory;    ///< memref of the stored type
  mlir::MemRefType type; ///< as the kernel declares it
  mlir::Type element() const { return type.getElementType(); }
  int64_t dim(unsigned i) const { return type.getDimSize(i); }
  llvm::SmallVector<int64_t> strides() const;
};

class KernelBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;
  using Body = llvm::function_ref<llvm::SmallVector<Value>(Value, mlir::ValueRange)>;

  KernelBuilder(mlir::Location loc, mlir::OpBuilder &builder, const HostIsa &target)
      : ImplicitLocOpBuilder(loc, builder), target(target) {}

  const HostIsa &target;
  mlir::IRMapping values; ///< index and scalar values of the kernel that were emitted already
  llvm::DenseMap<Value, View> views;
  llvm::SmallVector<Value> sizes; ///< T, B, Q, S, R as index
  Value begin, end;               ///< the range of blocks, index
  Value unprepared;               ///< i1: no range of this launch has used the scratch before
  Value scratchBase;              ///< !llvm.ptr
  int64_t scratchBytes = 0;

  /// Reports an error at `op`; building goes on, so that callers need no early exits.
  void fail(mlir::Operation *op, const llvm::Twine &message);
  bool failed = false;

  //===--- constants and index arithmetic ---===//
  Value index(int64_t value);
  /// A float or vector-of-float constant.
  Value constant(Type type, double value);
  /// An integer or vector-of-integer constant.
  Value integer(Type type, int64_t value);
  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, int64_t factor);
  Value minimum(Value a, Value b);
  Value maximum(Value a, Value b);
  /// a floordiv divisor and a mod divisor; a must not be negative unless divisor is a power of 2.
  Value floorDiv(Value a, int64_t divisor);
  Value mod(Value a, int64_t divisor);
  Value ceilDiv(Value a, int64_t divisor);
  /// An affine expression over index values.
  Value apply(mlir::AffineExpr expr, mlir::ValueRange dims, mlir::ValueRange symbols);
  Value less(Value a, Value b);
  /// The number of rows that `extent` names.
  Value extent(kernel::Extent extent);

  //===--- control flow ---===//
  /// A loop from lo to hi; `body` gets the induction value and the carried values and returns the
  /// next carried values. Returns the final ones.
  llvm::SmallVector<Value> loop(Value lo, Value hi, int64_t step, mlir::ValueRange carried,
                                Body body);
  void loop(Value lo, Value hi, int64_t step, llvm::function_ref<void(Value)> body);
  /// A loop by one of which `unroll` turns are one of the code's; they must divide hi - lo.
  llvm::SmallVector<Value> unrolledLoop(Value lo, Value hi, int64_t unroll,
                                        mlir::ValueRange carried, Body body);
  void when(Value condition, llvm::function_ref<void()> body);
  /// Whether this is the first block of the launch that the worker runs; `block` is null outside
  /// the grid. What such a block leaves in scratch need not be done again.
  Value isFirstOfWorker(Value block);

  //===--- vectors ---===//
  /// Lanes of a register for elements of this type (of its stored size or more).
  int64_t lanes(Type element) const;
  mlir::VectorType vec(Type element, int64_t width);
  Value broadcast(Value scalar, int64_t width);
  /// a * b + c, fused where the instruction set can.
  Value mulAdd(Value a, Value b, Value c);
  Value extract(Value vector, int64_t lane);
  /// Combines the lanes of a vector pairwise; a scalar.
  Value reduceLanes(kernel::Reduction kind, Value vector);
  Value combine(kernel::Reduction kind, Value a, Value b);

  //===--- memory ---===//
  /// The next block of the worker's scratch: undefined memory of this type.
  View scratch(mlir::MemRefType type);
  View viewOf(mlir::Operation *user, Value memref);
  /// A memref over memory that starts at `pointer` (!llvm.ptr).
  View makeView(Value pointer, mlir::MemRefType type);
  /// `width` elements from `at` on, contiguous in memory, as vector<width x compute>.
  Value loadVector(const View &view, mlir::ValueRange at, int64_t width, Type compute);
  /// Element-wise gather: `at(lane)` gives the indices.
  Value gather(const View &view, int64_t width, Type compute,
               llvm::function_ref<llvm::SmallVector<Value>(int64_t)> at);
  Value loadScalar(const View &view, mlir::ValueRange at, Type compute);
  void storeVector(const View &view, mlir::ValueRange at, Value vector);
  void scatter(const View &view, Value vector,
               llvm::function_ref<llvm::SmallVector<Value>(int64_t)> at);
  void storeScalar(const View &view, mlir::ValueRange at, Value scalar);
  /// Fetches the cache line of an element for reading, into the first cache (3) or the second (2).
  void prefetch(const View &view, mlir::ValueRange at, unsigned locality = 3);
  /// An i32 element as index.
  Value loadIndex(const View &view, mlir::ValueRange at);

  //===--- element-wise maths ---===//
  /// `op` on vectors in place of its scalars or tensors; `operands` are vectors or scalars.
  Value elementwise(mlir::Operation *op, mlir::ValueRange operands, int64_t width);
  /// Emits the ops of a core op's scalar region on vectors and returns what it yields.
  llvm::SmallVector<Value> inlineOnVectors(mlir::Block &block, mlir::ValueRange arguments,
                                           int64_t width);
};

/// Cuts [begin, end) into registers: a loop whose iteration takes `unroll` of them, then single
/// ones, then halving widths. `body(start, width)` must not depend on the order.
void forChunks(KernelBuilder &b, int64_t begin, int64_t end, int64_t lanes, int64_t unroll,
               llvm::function_ref<void(mlir::Value start, int64_t width)> body);

} // namespace gemma::codegen
