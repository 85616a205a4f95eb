// What the lowerings of all core ops share on a GPU: an op builder that knows the block's threads
// and shared memory, the kernel's arguments as pointers, the step's sizes, and the conversions
// between stored and computed types.
//
// Index arithmetic is in i32; only the last step, an element's offset from an argument's first
// byte, is in i64, because weights and caches are larger than 2 GiB.
#pragma once

#include "dialect/kernel/SharedMemory.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace gemma::codegen::cuda {

/// PTX state spaces as LLVM's address spaces.
constexpr unsigned globalSpace = 1, sharedSpace = 3;

/// A kernel argument in global memory, or memory of the block in shared memory.
struct View {
  mlir::Value base;      ///< !llvm.ptr<1> or !llvm.ptr<3>: the first element
  mlir::MemRefType type; ///< as the kernel declares it
  bool constant = false; ///< a weight or table: nobody writes it while the program runs
  mlir::Type element() const { return type.getElementType(); }
  int64_t elementBytes() const { return type.getElementTypeBitWidth() / 8; }
  int64_t dim(unsigned i) const { return type.getDimSize(i); }
  bool shared() const;
  /// Of `width` elements that begin at a multiple of it in a row whose length is one too; at most
  /// 16.
  int64_t alignment(int64_t width) const { return std::min<int64_t>(16, width * elementBytes()); }
  llvm::SmallVector<int64_t> strides() const;
};

class GpuBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;
  using Body = llvm::function_ref<llvm::SmallVector<Value>(Value, mlir::ValueRange)>;

  GpuBuilder(mlir::Location loc, mlir::OpBuilder &builder, int64_t threads)
      : ImplicitLocOpBuilder(loc, builder), threads(threads) {}

  const int64_t threads;
  mlir::IRMapping values; ///< index values of the kernel (as i32) that were emitted already
  llvm::DenseMap<Value, View> views;
  llvm::SmallVector<Value> sizes; ///< T, B, Q, S, R as i32
  Value block;                    ///< number of this block, i32
  Value thread, lane, warp;       ///< of this thread, i32
  Value sharedBase;               ///< !llvm.ptr<3>
  int64_t sharedBytes = 0;        ///< handed out so far
  int64_t sharedPeak = 0;         ///< the most that was handed out at any time

  int64_t warps() const { return threads / 32; }

  /// Reports an error at `op`; building goes on, so that callers need no early exits.
  void fail(mlir::Operation *op, const llvm::Twine &message);
  bool failed = false;

  //===--- constants and index arithmetic (i32) ---===//
  Value index(int64_t value);
  Value constant(Type type, double value);
  Value integer(Type type, int64_t value);
  Value f32(double value) { return constant(getF32Type(), value); }
  Value add(Value a, Value b);
  Value add(Value a, int64_t b) { return b ? add(a, index(b)) : a; }
  Value sub(Value a, Value b);
  Value mul(Value a, int64_t factor);
  Value minimum(Value a, Value b);
  Value maximum(Value a, Value b);
  /// a floordiv divisor and a mod divisor of a ≥ 0.
  Value floorDiv(Value a, int64_t divisor);
  Value mod(Value a, int64_t divisor);
  Value ceilDiv(Value a, int64_t divisor);
  Value bitXor(Value a, Value b);
  Value bitAnd(Value a, Value b);
  Value apply(mlir::AffineExpr expr, mlir::ValueRange dims, mlir::ValueRange symbols);
  Value less(Value a, Value b);
  Value notLess(Value a, Value b);
  Value equal(Value a, Value b);
  Value both(Value a, Value b); ///< of two conditions
  Value truth(bool value);      ///< a condition
  Value negate(Value condition);
  Value select(Value condition, Value yes, Value no);
  Value extent(kernel::Extent extent);

  //===--- control flow ---===//
  llvm::SmallVector<Value> loop(Value lo, Value hi, Value step, mlir::ValueRange carried,
                                Body body);
  void loop(Value lo, Value hi, Value step, llvm::function_ref<void(Value)> body);
  void when(Value condition, llvm::function_ref<void()> body);
  /// The values of `body` where the condition holds, else `otherwise`.
  llvm::SmallVector<Value> choose(Value condition, mlir::ValueRange otherwise,
                                  llvm::function_ref<llvm::SmallVector<Value>()> body);
  /// Calls `body` for this thread's share of the numbers below `count`, unrolled.
  void forShare(int64_t count, llvm::function_ref<void(Value)> body);
  /// All threads of the block arrive; what they wrote before is seen by all after it.
  void barrier();

  //===--- vectors ---===//
  mlir::VectorType vec(Type element, int64_t width);
  Value broadcast(Value scalar, int64_t width);
  Value extract(Value vector, int64_t lane);
  Value fromElements(mlir::ValueRange elements);
  Value reduceLanes(kernel::Reduction kind, Value vector);
  Value combine(kernel::Reduction kind, Value a, Value b);
  Value neutral(kernel::Reduction kind, Type type);

  //===--- threads together ---===//
  /// The value of the lane whose number differs in the bits of `mask`; i32 or f32.
  Value shuffleXor(Value value, int64_t mask);
  /// Combines over groups of `group` neighbouring lanes (a power of 2); all get the result.
  Value reduceGroup(kernel::Reduction kind, Value value, int64_t group);
  /// Combines over the block; all threads get the result. Contains two barriers.
  Value reduceBlock(kernel::Reduction kind, Value value);

  //===--- memory ---===//
  /// Shared memory that lives to the end of the kernel, or until `release`.
  View shared(llvm::ArrayRef<int64_t> shape, Type element);
  int64_t mark() const { return sharedBytes; }
  void release(int64_t to) { sharedBytes = to; }
  View viewOf(mlir::Operation *user, Value memref);
  Value pointer(const View &view, mlir::ValueRange at);
  /// `bytes` (i32) after the start of shared memory `view`.
  Value sharedPointer(const View &view, Value bytes);
  Value loadAt(Value pointer, Type type, int64_t alignment, bool constant = false);
  void storeAt(Value pointer, Value value, int64_t alignment);
  /// `width` contiguous elements as vector<width x compute>; `alignment` of the first, in bytes.
  Value loadVector(const View &view, mlir::ValueRange at, int64_t width, Type compute,
                   int64_t alignment);
  void storeVector(const View &view, mlir::ValueRange at, Value vector, int64_t alignment);
  Value loadScalar(const View &view, mlir::ValueRange at, Type compute);
  void storeScalar(const View &view, mlir::ValueRange at, Value scalar);
  /// An i32 element.
  Value loadIndex(const View &view, mlir::ValueRange at);
  Value widen(Value value, Type compute);
  Value round(Value value, Type element);

  //===--- eight f32 a lane, side by side (OctetAccess.cpp) ---===//
  // They are two accesses of 16 bytes. Where each lane moved its own halves, an access would touch
  // every sector of global memory for half of it, and the same banks of shared memory twice.
  // Addresses are multiples of 16.

  /// In shared memory: each lane its own halves, in another order every four lanes.
  Value loadSharedOctet(Value pointer);
  void storeSharedOctet(Value pointer, Value octet);
  /// In global memory: four lanes and the next four (from a multiple of 8 on, their octets side by
  /// side) each move a half of their own octet and a half of the other's. `load` and `store` move
  /// halves and may be left out where none of the eight lanes has an octet; `exchangeHalves` makes
  /// an octet of moved halves and the reverse, by shuffles: all lanes of the warp take part.
  std::pair<Value, Value> loadHalves(Value pointer, bool constant);
  void storeHalves(Value pointer, std::pair<Value, Value> halves);
  std::pair<Value, Value> exchangeHalves(std::pair<Value, Value> halves);
  Value joinHalves(std::pair<Value, Value> halves);
  std::pair<Value, Value> splitOctet(Value octet);

  //===--- asynchronous copies and matrices ---===//
  /// Copies `size` (4, 8 or 16) bytes to shared memory, of which `bytes` (i32) are read and the
  /// rest zero.
  void copyAsync(Value to, Value from, Value bytes, int64_t size = 16);
  void commitCopies();
  /// Waits until at most `pending` groups of copies of this thread are on their way.
  void waitCopies(int64_t pending);
  /// `count` 8x8 matrices of 16-bit elements (i32 registers); lane i gives the address of a row.
  llvm::SmallVector<Value> loadMatrices(Value pointer, int64_t count, bool transposed);
  /// c + a·b, a 16x16 (row-major registers), b 16x8, of bf16; c four f32 registers.
  llvm::SmallVector<Value> mma(mlir::ValueRange a, mlir::ValueRange b, mlir::ValueRange c);

  //===--- element-wise maths ---===//
  /// An LLVM intrinsic that is overloaded on its result type, applied to every element.
  Value intrinsic(llvm::StringRef name, mlir::ValueRange operands, bool approximate = false);
  Value exp2(Value x) { return intrinsic("llvm.exp2", x, /*approximate=*/true); }
  Value exp(Value x);
  Value tanh(Value x);
  /// `op` on vectors (width > 0) or scalars (width 0) in place of its operands.
  Value elementwise(mlir::Operation *op, mlir::ValueRange operands, int64_t width);
  /// Emits the ops of a core op's scalar region and returns what it yields.
  llvm::SmallVector<Value> inlineScalars(mlir::Block &block, mlir::ValueRange arguments);

private:
  /// Whether this lane is one of the second four of eight.
  Value inUpperFour();
  Value movedBy(Value pointer, Value bytes);

  View reduceSlots; ///< of reduceBlock
};

} // namespace gemma::codegen::cuda
