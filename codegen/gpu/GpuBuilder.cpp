#include "codegen/gpu/GpuBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace gemma::codegen::cuda {

bool View::shared() const {
  return cast<LLVM::LLVMPointerType>(base.getType()).getAddressSpace() == sharedSpace;
}

SmallVector<int64_t> View::strides() const { return type.getStridesAndOffset().first; }

void GpuBuilder::fail(Operation *op, const Twine &message) {
  if (!failed)
    op->emitOpError(message);
  failed = true;
}

//===----------------------------------------------------------------------===//
// Constants and index arithmetic
//===----------------------------------------------------------------------===//

Value GpuBuilder::index(int64_t value) { return integer(getI32Type(), value); }

Value GpuBuilder::constant(Type type, double value) {
  auto attr = getFloatAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(*this, DenseElementsAttr::get(vector, attr.getValue()));
  return arith::ConstantOp::create(*this, attr);
}

Value GpuBuilder::integer(Type type, int64_t value) {
  auto attr = getIntegerAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(*this, DenseElementsAttr::get(vector, attr.getValue()));
  return arith::ConstantOp::create(*this, attr);
}

Value GpuBuilder::add(Value a, Value b) { return createOrFold<arith::AddIOp>(a, b); }
Value GpuBuilder::sub(Value a, Value b) { return createOrFold<arith::SubIOp>(a, b); }
Value GpuBuilder::mul(Value a, int64_t factor) {
  return factor == 1 ? a : createOrFold<arith::MulIOp>(a, index(factor));
}
Value GpuBuilder::minimum(Value a, Value b) { return createOrFold<arith::MinSIOp>(a, b); }
Value GpuBuilder::maximum(Value a, Value b) { return createOrFold<arith::MaxSIOp>(a, b); }
Value GpuBuilder::bitXor(Value a, Value b) { return createOrFold<arith::XOrIOp>(a, b); }
Value GpuBuilder::bitAnd(Value a, Value b) { return createOrFold<arith::AndIOp>(a, b); }

Value GpuBuilder::floorDiv(Value a, int64_t divisor) {
  if (divisor == 1)
    return a;
  if (llvm::isPowerOf2_64(divisor))
    return createOrFold<arith::ShRSIOp>(a, index(llvm::Log2_64(divisor)));
  return createOrFold<arith::DivUIOp>(a, index(divisor));
}

Value GpuBuilder::mod(Value a, int64_t divisor) {
  if (llvm::isPowerOf2_64(divisor))
    return bitAnd(a, index(divisor - 1));
  return createOrFold<arith::RemUIOp>(a, index(divisor));
}

Value GpuBuilder::ceilDiv(Value a, int64_t divisor) {
  return floorDiv(add(a, divisor - 1), divisor);
}

Value GpuBuilder::apply(AffineExpr expr, ValueRange dims, ValueRange symbols) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return dims[dim.getPosition()];
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return symbols[symbol.getPosition()];
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return index(constant.getValue());
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value lhs = apply(binary.getLHS(), dims, symbols);
  auto right = dyn_cast<AffineConstantExpr>(binary.getRHS());
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return add(lhs, apply(binary.getRHS(), dims, symbols));
  case AffineExprKind::Mul:
    if (right)
      return mul(lhs, right.getValue());
    return createOrFold<arith::MulIOp>(lhs, apply(binary.getRHS(), dims, symbols));
  case AffineExprKind::FloorDiv:
  case AffineExprKind::CeilDiv:
  case AffineExprKind::Mod:
    break;
  default:
    llvm_unreachable("leaf expressions were handled above");
  }
  if (!right || right.getValue() <= 0) {
    fail(getInsertionBlock()->getParentOp(),
         "divides by something that is not a positive constant");
    return lhs;
  }
  if (expr.getKind() == AffineExprKind::Mod)
    return mod(lhs, right.getValue());
  return expr.getKind() == AffineExprKind::FloorDiv ? floorDiv(lhs, right.getValue())
                                                    : ceilDiv(lhs, right.getValue());
}

Value GpuBuilder::less(Value a, Value b) {
  return createOrFold<arith::CmpIOp>(arith::CmpIPredicate::slt, a, b);
}
Value GpuBuilder::notLess(Value a, Value b) {
  return createOrFold<arith::CmpIOp>(arith::CmpIPredicate::sge, a, b);
}
Value GpuBuilder::both(Value a, Value b) { return createOrFold<arith::AndIOp>(a, b); }
Value GpuBuilder::truth(bool value) { return integer(getI1Type(), value ? 1 : 0); }
Value GpuBuilder::negate(Value condition) {
  return createOrFold<arith::XOrIOp>(condition, truth(true));
}
Value GpuBuilder::equal(Value a, Value b) {
  return createOrFold<arith::CmpIOp>(arith::CmpIPredicate::eq, a, b);
}
Value GpuBuilder::select(Value condition, Value yes, Value no) {
  return createOrFold<arith::SelectOp>(condition, yes, no);
}

Value GpuBuilder::extent(kernel::Extent extent) {
  switch (extent) {
  case kernel::Extent::T:
    return sizes[0];
  case kernel::Extent::B:
    return sizes[1];
  case kernel::Extent::R:
    return sizes[4];
  }
  llvm_unreachable("all extents are handled");
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

SmallVector<Value> GpuBuilder::loop(Value lo, Value hi, Value step, ValueRange carried, Body body) {
  auto forOp = scf::ForOp::create(*this, lo, hi, step, carried);
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(forOp.getBody());
  SmallVector<Value> next = body(forOp.getInductionVar(), forOp.getRegionIterArgs());
  if (!carried.empty())
    scf::YieldOp::create(*this, next);
  return SmallVector<Value>(forOp.getResults());
}

void GpuBuilder::loop(Value lo, Value hi, Value step, function_ref<void(Value)> body) {
  loop(lo, hi, step, ValueRange(), [&](Value iv, ValueRange) {
    body(iv);
    return SmallVector<Value>();
  });
}

void GpuBuilder::when(Value condition, function_ref<void()> body) {
  auto ifOp = scf::IfOp::create(*this, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(&ifOp.getThenRegion().front());
  body();
}

SmallVector<Value> GpuBuilder::choose(Value condition, ValueRange otherwise,
                                      function_ref<SmallVector<Value>()> body) {
  auto ifOp = scf::IfOp::create(*this, otherwise.getTypes(), condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(&ifOp.getThenRegion().front());
  scf::YieldOp::create(*this, body());
  setInsertionPointToStart(&ifOp.getElseRegion().front());
  scf::YieldOp::create(*this, otherwise);
  return SmallVector<Value>(ifOp.getResults());
}

void GpuBuilder::forShare(int64_t count, function_ref<void(Value)> body) {
  for (int64_t first = 0; first < count; first += threads) {
    Value i = add(thread, first);
    if (first + threads <= count)
      body(i);
    else
      when(less(i, index(count)), [&] { body(i); });
  }
}

void GpuBuilder::barrier() { gpu::BarrierOp::create(*this); }

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

VectorType GpuBuilder::vec(Type element, int64_t width) {
  return VectorType::get({width}, element);
}

Value GpuBuilder::broadcast(Value scalar, int64_t width) {
  return vector::BroadcastOp::create(*this, vec(scalar.getType(), width), scalar);
}

Value GpuBuilder::extract(Value vector, int64_t lane) {
  return vector::ExtractOp::create(*this, vector, lane);
}

Value GpuBuilder::fromElements(ValueRange elements) {
  return vector::FromElementsOp::create(*this, vec(elements.front().getType(), elements.size()),
                                        elements);
}

Value GpuBuilder::combine(kernel::Reduction kind, Value a, Value b) {
  if (kind == kernel::Reduction::Add)
    return arith::AddFOp::create(*this, a, b);
  return arith::MaximumFOp::create(*this, a, b);
}

Value GpuBuilder::neutral(kernel::Reduction kind, Type type) {
  return constant(type, kind == kernel::Reduction::Add ? 0.0 : -INFINITY);
}

Value GpuBuilder::reduceLanes(kernel::Reduction kind, Value vector) {
  SmallVector<Value> lanes;
  for (int64_t i = 0, n = cast<VectorType>(vector.getType()).getDimSize(0); i < n; ++i)
    lanes.push_back(extract(vector, i));
  while (lanes.size() > 1) {
    SmallVector<Value> next;
    for (size_t i = 0; i + 1 < lanes.size(); i += 2)
      next.push_back(combine(kind, lanes[i], lanes[i + 1]));
    if (lanes.size() % 2)
      next.push_back(lanes.back());
    lanes = next;
  }
  return lanes.front();
}

//===----------------------------------------------------------------------===//
// Threads together
//===----------------------------------------------------------------------===//

Value GpuBuilder::shuffleXor(Value value, int64_t mask) {
  return NVVM::ShflOp::create(*this, value.getType(), index(-1), value, index(mask), index(31),
                              NVVM::ShflKind::bfly, UnitAttr());
}

Value GpuBuilder::reduceGroup(kernel::Reduction kind, Value value, int64_t group) {
  for (int64_t mask = group / 2; mask > 0; mask /= 2)
    value = combine(kind, value, shuffleXor(value, mask));
  return value;
}

Value GpuBuilder::reduceBlock(kernel::Reduction kind, Value value) {
  value = reduceGroup(kind, value, 32);
  if (warps() == 1)
    return value;
  if (!reduceSlots.base)
    reduceSlots = shared({32}, getF32Type());
  // The slots may still be read by the reduction before.
  barrier();
  when(equal(lane, index(0)), [&] { storeScalar(reduceSlots, warp, value); });
  barrier();
  // Every warp sums the slots in the same order. Slots of warps that are not there do not count.
  SmallVector<Value> one = choose(less(lane, index(warps())), neutral(kind, value.getType()), [&] {
    return SmallVector<Value>{loadScalar(reduceSlots, lane, value.getType())};
  });
  return reduceGroup(kind, one.front(), 32);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

View GpuBuilder::shared(ArrayRef<int64_t> shape, Type element) {
  auto type = MemRefType::get(shape, element);
  // At the start of the kernel, so that it can be used wherever it was first asked for.
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointAfterValue(sharedBase);
  Value base = LLVM::GEPOp::create(*this, sharedBase.getType(), getI8Type(), sharedBase,
                                   ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(sharedBytes)});
  sharedBytes += llvm::alignTo(type.getNumElements() * type.getElementTypeBitWidth() / 8,
                               static_cast<uint64_t>(kernel::kSharedAlignment));
  sharedPeak = std::max(sharedPeak, sharedBytes);
  return {base, type};
}

View GpuBuilder::viewOf(Operation *user, Value memref) {
  auto it = views.find(memref);
  if (it != views.end())
    return it->second;
  fail(user, "expected its memory to be an argument of the kernel or kernel.scratch");
  return {sharedBase, cast<MemRefType>(memref.getType())};
}

Value GpuBuilder::pointer(const View &view, ValueRange at) {
  bool wide = !view.shared();
  Type type = wide ? getI64Type() : getI32Type();
  Value offset;
  for (auto [i, stride] : llvm::zip_equal(at, view.strides())) {
    Value term = wide ? Value(createOrFold<arith::ExtSIOp>(type, i)) : i;
    if (stride != 1)
      term = createOrFold<arith::MulIOp>(term, integer(type, stride));
    offset = offset ? createOrFold<arith::AddIOp>(offset, term) : term;
  }
  if (!offset)
    return view.base;
  return LLVM::GEPOp::create(*this, view.base.getType(), view.element(), view.base,
                             ArrayRef<LLVM::GEPArg>{offset});
}

Value GpuBuilder::sharedPointer(const View &view, Value bytes) {
  return LLVM::GEPOp::create(*this, view.base.getType(), getI8Type(), view.base,
                             ArrayRef<LLVM::GEPArg>{bytes});
}

Value GpuBuilder::loadAt(Value pointer, Type type, int64_t alignment, bool constant) {
  auto load = LLVM::LoadOp::create(*this, type, pointer, static_cast<unsigned>(alignment));
  load.setInvariant(constant);
  return load;
}

void GpuBuilder::storeAt(Value pointer, Value value, int64_t alignment) {
  LLVM::StoreOp::create(*this, value, pointer, static_cast<unsigned>(alignment));
}

Value GpuBuilder::widen(Value value, Type compute) {
  Type from = value.getType(), to = compute;
  if (auto vector = dyn_cast<VectorType>(from))
    to = vector.clone(compute);
  if (from == to)
    return value;
  if (getElementTypeOrSelf(from).getIntOrFloatBitWidth() > compute.getIntOrFloatBitWidth())
    return arith::TruncFOp::create(*this, to, value);
  return arith::ExtFOp::create(*this, to, value);
}

Value GpuBuilder::round(Value value, Type element) { return widen(value, element); }

Value GpuBuilder::loadVector(const View &view, ValueRange at, int64_t width, Type compute,
                             int64_t alignment) {
  return widen(loadAt(pointer(view, at), vec(view.element(), width), alignment, view.constant),
               compute);
}

void GpuBuilder::storeVector(const View &view, ValueRange at, Value vector, int64_t alignment) {
  storeAt(pointer(view, at), round(vector, view.element()), alignment);
}

Value GpuBuilder::loadScalar(const View &view, ValueRange at, Type compute) {
  return widen(loadAt(pointer(view, at), view.element(), view.elementBytes(), view.constant),
               compute);
}

void GpuBuilder::storeScalar(const View &view, ValueRange at, Value scalar) {
  storeAt(pointer(view, at), round(scalar, view.element()), view.elementBytes());
}

Value GpuBuilder::loadIndex(const View &view, ValueRange at) {
  return loadAt(pointer(view, at), getI32Type(), 4, view.constant);
}

//===----------------------------------------------------------------------===//
// Asynchronous copies and matrices
//===----------------------------------------------------------------------===//

void GpuBuilder::copyAsync(Value to, Value from, Value bytes, int64_t size) {
  // Past the first level of cache, which only copies of 16 bytes can be told.
  auto cache = size == 16 ? NVVM::LoadCacheModifierKind::CG : NVVM::LoadCacheModifierKind::CA;
  NVVM::CpAsyncOp::create(*this, to, from, getI32IntegerAttr(static_cast<int32_t>(size)),
                          NVVM::LoadCacheModifierKindAttr::get(getContext(), cache), bytes);
}

void GpuBuilder::commitCopies() { NVVM::CpAsyncCommitGroupOp::create(*this); }

void GpuBuilder::waitCopies(int64_t pending) {
  NVVM::CpAsyncWaitGroupOp::create(*this, getI32IntegerAttr(static_cast<int32_t>(pending)));
}

SmallVector<Value> GpuBuilder::loadMatrices(Value pointer, int64_t count, bool transposed) {
  Type i32 = getI32Type();
  Type result = count == 1 ? i32
                           : LLVM::LLVMStructType::getLiteral(
                                 getContext(), SmallVector<Type>(static_cast<size_t>(count), i32));
  Value loaded = NVVM::LdMatrixOp::create(*this, result, pointer, static_cast<uint32_t>(count),
                                          transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row,
                                          NVVM::LdStMatrixShapeAttr::get(getContext(), 8, 8),
                                          NVVM::LdStMatrixEltType::B16);
  if (count == 1)
    return {loaded};
  SmallVector<Value> registers;
  for (int64_t i = 0; i < count; ++i)
    registers.push_back(LLVM::ExtractValueOp::create(*this, loaded, i));
  return registers;
}

SmallVector<Value> GpuBuilder::mma(ValueRange a, ValueRange b, ValueRange c) {
  Type result = LLVM::LLVMStructType::getLiteral(getContext(), SmallVector<Type>(4, getF32Type()));
  Value sum =
      NVVM::MmaOp::create(*this, result, a, b, c, ArrayRef<int64_t>{16, 8, 16}, std::nullopt,
                          std::nullopt, std::array{NVVM::MMATypes::bf16, NVVM::MMATypes::bf16},
                          std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
  SmallVector<Value> registers;
  for (int64_t i = 0; i < 4; ++i)
    registers.push_back(LLVM::ExtractValueOp::create(*this, sum, i));
  return registers;
}

} // namespace gemma::codegen::cuda
