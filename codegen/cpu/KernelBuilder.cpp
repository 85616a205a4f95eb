#include "codegen/cpu/KernelBuilder.h"

#include "codegen/cpu/VectorMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace gemma::codegen {

SmallVector<int64_t> View::strides() const { return type.getStridesAndOffset().first; }

void KernelBuilder::fail(Operation *op, const Twine &message) {
  if (!failed)
    op->emitOpError(message);
  failed = true;
}

//===----------------------------------------------------------------------===//
// Constants and index arithmetic
//===----------------------------------------------------------------------===//

Value KernelBuilder::index(int64_t value) { return arith::ConstantIndexOp::create(*this, value); }

Value KernelBuilder::constant(Type type, double value) {
  auto attr = getFloatAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(*this, DenseElementsAttr::get(vector, attr.getValue()));
  return arith::ConstantOp::create(*this, attr);
}

Value KernelBuilder::integer(Type type, int64_t value) {
  auto attr = getIntegerAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(*this, DenseElementsAttr::get(vector, attr.getValue()));
  return arith::ConstantOp::create(*this, attr);
}

Value KernelBuilder::add(Value a, Value b) {
  if (matchPattern(b, m_Zero()))
    return a;
  if (matchPattern(a, m_Zero()))
    return b;
  return arith::AddIOp::create(*this, a, b);
}

Value KernelBuilder::sub(Value a, Value b) { return arith::SubIOp::create(*this, a, b); }

Value KernelBuilder::mul(Value a, int64_t factor) {
  return factor == 1 ? a : Value(arith::MulIOp::create(*this, a, index(factor)));
}

Value KernelBuilder::minimum(Value a, Value b) { return arith::MinSIOp::create(*this, a, b); }
Value KernelBuilder::maximum(Value a, Value b) { return arith::MaxSIOp::create(*this, a, b); }

Value KernelBuilder::floorDiv(Value a, int64_t divisor) {
  if (divisor == 1)
    return a;
  if (llvm::isPowerOf2_64(divisor))
    return arith::ShRSIOp::create(*this, a, index(llvm::Log2_64(divisor)));
  return arith::DivUIOp::create(*this, a, index(divisor));
}

Value KernelBuilder::mod(Value a, int64_t divisor) {
  if (llvm::isPowerOf2_64(divisor))
    return arith::AndIOp::create(*this, a, index(divisor - 1));
  return arith::RemUIOp::create(*this, a, index(divisor));
}

Value KernelBuilder::ceilDiv(Value a, int64_t divisor) {
  return floorDiv(add(a, index(divisor - 1)), divisor);
}

Value KernelBuilder::apply(AffineExpr expr, ValueRange dims, ValueRange symbols) {
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
    return arith::MulIOp::create(*this, lhs, apply(binary.getRHS(), dims, symbols));
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

Value KernelBuilder::less(Value a, Value b) {
  return arith::CmpIOp::create(*this, arith::CmpIPredicate::slt, a, b);
}

Value KernelBuilder::extent(kernel::Extent extent) {
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

SmallVector<Value> KernelBuilder::loop(Value lo, Value hi, int64_t step, ValueRange carried,
                                       Body body) {
  auto forOp = scf::ForOp::create(*this, lo, hi, index(step), carried);
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(forOp.getBody());
  SmallVector<Value> next = body(forOp.getInductionVar(), forOp.getRegionIterArgs());
  if (!carried.empty())
    scf::YieldOp::create(*this, next);
  return SmallVector<Value>(forOp.getResults());
}

void KernelBuilder::loop(Value lo, Value hi, int64_t step, function_ref<void(Value)> body) {
  loop(lo, hi, step, ValueRange(), [&](Value iv, ValueRange) {
    body(iv);
    return SmallVector<Value>();
  });
}

SmallVector<Value> KernelBuilder::unrolledLoop(Value lo, Value hi, int64_t unroll,
                                               ValueRange carried, Body body) {
  return loop(lo, hi, unroll, carried, [&](Value at, ValueRange before) {
    SmallVector<Value> next(before);
    for (int64_t u = 0; u < unroll; ++u)
      next = body(add(at, index(u)), next);
    return next;
  });
}

Value KernelBuilder::isFirstOfWorker(Value block) {
  if (!block)
    return unprepared;
  Value firstOfRange = arith::CmpIOp::create(*this, arith::CmpIPredicate::eq, block, begin);
  return arith::AndIOp::create(*this, unprepared, firstOfRange);
}

void KernelBuilder::when(Value condition, function_ref<void()> body) {
  auto ifOp = scf::IfOp::create(*this, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(&ifOp.getThenRegion().front());
  body();
}

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

int64_t KernelBuilder::lanes(Type element) const {
  return target.vectorBits / element.getIntOrFloatBitWidth();
}

VectorType KernelBuilder::vec(Type element, int64_t width) {
  return VectorType::get({width}, element);
}

Value KernelBuilder::broadcast(Value scalar, int64_t width) {
  return vector::BroadcastOp::create(*this, vec(scalar.getType(), width), scalar);
}

Value KernelBuilder::mulAdd(Value a, Value b, Value c) {
  if (target.fma)
    return math::FmaOp::create(*this, a, b, c);
  return arith::AddFOp::create(*this, arith::MulFOp::create(*this, a, b), c);
}

Value KernelBuilder::extract(Value vector, int64_t lane) {
  return vector::ExtractOp::create(*this, vector, lane);
}

Value KernelBuilder::combine(kernel::Reduction kind, Value a, Value b) {
  if (kind == kernel::Reduction::Add)
    return arith::AddFOp::create(*this, a, b);
  return arith::MaximumFOp::create(*this, a, b);
}

Value KernelBuilder::reduceLanes(kernel::Reduction kind, Value vector) {
  int64_t width = cast<VectorType>(vector.getType()).getDimSize(0);
  while (width > 1) {
    width /= 2;
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < width; ++i) {
      low.push_back(i);
      high.push_back(width + i);
    }
    Value a = vector::ShuffleOp::create(*this, vector, vector, low);
    Value b = vector::ShuffleOp::create(*this, vector, vector, high);
    vector = combine(kind, a, b);
  }
  return extract(vector, 0);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// 16-bit floats are stored as i16.
static Type storedType(Type element) {
  if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 16)
    return IntegerType::get(element.getContext(), 16);
  return element;
}

View KernelBuilder::makeView(Value pointer, MemRefType type) {
  auto stored =
      MemRefType::get(type.getShape(), storedType(type.getElementType()), type.getLayout());
  auto [strides, offset] = type.getStridesAndOffset();
  unsigned rank = type.getRank();
  Type i64 = getI64Type(), array = LLVM::LLVMArrayType::get(i64, rank);
  SmallVector<Type> fields = {pointer.getType(), pointer.getType(), i64};
  if (rank)
    fields.append({array, array});
  Value descriptor =
      LLVM::PoisonOp::create(*this, LLVM::LLVMStructType::getLiteral(getContext(), fields));
  auto insert = [&](Value field, ArrayRef<int64_t> at) {
    descriptor = LLVM::InsertValueOp::create(*this, descriptor, field, at);
  };
  auto number = [&](int64_t value) {
    return LLVM::ConstantOp::create(*this, i64, getI64IntegerAttr(value));
  };
  insert(pointer, {0});
  insert(pointer, {1});
  insert(number(0), {2});
  for (unsigned i = 0; i < rank; ++i) {
    // The size of a dynamic dimension is never looked at: loops run over the step's sizes.
    insert(number(type.isDynamicDim(i) ? 0 : type.getDimSize(i)), {3, i});
    insert(number(strides[i]), {4, i});
  }
  Value memory = UnrealizedConversionCastOp::create(*this, stored, descriptor).getResult(0);
  return {memory, type};
}

View KernelBuilder::scratch(MemRefType type) {
  Value offset = LLVM::ConstantOp::create(*this, getI64Type(), getI64IntegerAttr(scratchBytes));
  Value pointer = LLVM::GEPOp::create(*this, scratchBase.getType(), getI8Type(), scratchBase,
                                      ArrayRef<LLVM::GEPArg>{offset});
  scratchBytes += kernel::scratchBytesOf(type);
  return makeView(pointer, type);
}

View KernelBuilder::viewOf(Operation *user, Value memref) {
  auto it = views.find(memref);
  if (it != views.end())
    return it->second;
  fail(user, "expected its memory to be an argument of the kernel or kernel.scratch");
  return makeView(scratchBase, cast<MemRefType>(memref.getType()));
}

Value KernelBuilder::loadVector(const View &view, ValueRange at, int64_t width, Type compute) {
  auto stored = cast<MemRefType>(view.memory.getType()).getElementType();
  Value loaded = vector::LoadOp::create(*this, vec(stored, width), view.memory, at);
  return emitWiden(*this, loaded, view.element(), compute);
}

Value KernelBuilder::gather(const View &view, int64_t width, Type compute,
                            function_ref<SmallVector<Value>(int64_t)> at) {
  auto stored = cast<MemRefType>(view.memory.getType()).getElementType();
  SmallVector<Value> elements;
  for (int64_t lane = 0; lane < width; ++lane)
    elements.push_back(memref::LoadOp::create(*this, view.memory, at(lane)));
  Value gathered = vector::FromElementsOp::create(*this, vec(stored, width), elements);
  return emitWiden(*this, gathered, view.element(), compute);
}

Value KernelBuilder::loadScalar(const View &view, ValueRange at, Type compute) {
  Value loaded = memref::LoadOp::create(*this, view.memory, at);
  if (loaded.getType() == compute)
    return loaded;
  Value one = vector::BroadcastOp::create(*this, vec(loaded.getType(), 1), loaded);
  return extract(emitWiden(*this, one, view.element(), compute), 0);
}

void KernelBuilder::storeVector(const View &view, ValueRange at, Value vector) {
  vector::StoreOp::create(*this, emitRound(*this, vector, view.element()), view.memory, at);
}

void KernelBuilder::scatter(const View &view, Value vector,
                            function_ref<SmallVector<Value>(int64_t)> at) {
  int64_t width = cast<VectorType>(vector.getType()).getDimSize(0);
  Value rounded = emitRound(*this, vector, view.element());
  for (int64_t lane = 0; lane < width; ++lane)
    memref::StoreOp::create(*this, extract(rounded, lane), view.memory, at(lane));
}

void KernelBuilder::storeScalar(const View &view, ValueRange at, Value scalar) {
  Value one = vector::BroadcastOp::create(*this, vec(scalar.getType(), 1), scalar);
  Value rounded = emitRound(*this, one, view.element());
  memref::StoreOp::create(*this, extract(rounded, 0), view.memory, at);
}

void KernelBuilder::prefetch(const View &view, ValueRange at, unsigned locality) {
  memref::PrefetchOp::create(*this, view.memory, at, /*isWrite=*/false, locality,
                             /*isDataCache=*/true);
}

Value KernelBuilder::loadIndex(const View &view, ValueRange at) {
  return arith::IndexCastOp::create(*this, getIndexType(),
                                    memref::LoadOp::create(*this, view.memory, at));
}

//===----------------------------------------------------------------------===//
// Element-wise maths
//===----------------------------------------------------------------------===//

Value KernelBuilder::elementwise(Operation *op, ValueRange operands, int64_t width) {
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  // Width 0 says scalar.
  Type result = width ? Type(vec(element, width)) : element;
  if (isa<math::ExpOp>(op))
    return emitExp(*this, operands[0]);
  if (isa<math::TanhOp>(op))
    return emitTanh(*this, operands[0]);
  if (isa<math::FmaOp>(op))
    return mulAdd(operands[0], operands[1], operands[2]);
  if (isa<math::RsqrtOp>(op))
    return arith::DivFOp::create(*this, constant(result, 1.0),
                                 math::SqrtOp::create(*this, operands[0]));
  if (auto constantOp = dyn_cast<arith::ConstantOp>(op)) {
    Attribute value = constantOp.getValue();
    if (auto dense = dyn_cast<DenseElementsAttr>(value)) {
      if (!dense.isSplat()) {
        fail(op, "expected a constant with one value for all elements");
        return arith::ConstantOp::create(*this, cast<TypedAttr>(getZeroAttr(result)));
      }
      value = dense.getSplatValue<Attribute>();
    }
    if (width)
      value = DenseElementsAttr::get(cast<VectorType>(result), value);
    return arith::ConstantOp::create(*this, cast<TypedAttr>(value));
  }
  if (op->getNumResults() != 1 || !OpTrait::hasElementwiseMappableTraits(op)) {
    fail(op, "is not element-wise: not allowed in the body of a core op");
    return arith::ConstantOp::create(*this, cast<TypedAttr>(getZeroAttr(result)));
  }
  for (Type type : op->getOperandTypes())
    if (getElementTypeOrSelf(type).getIntOrFloatBitWidth() == 16)
      fail(op, "computes with a 16-bit float; bodies widen to f32");
  return create(getLoc(), op->getName().getIdentifier(), operands, result, op->getAttrs())
      ->getResult(0);
}

SmallVector<Value> KernelBuilder::inlineOnVectors(Block &block, ValueRange arguments,
                                                  int64_t width) {
  llvm::DenseMap<Value, Value> done;
  for (auto [argument, value] : llvm::zip_equal(block.getArguments(), arguments))
    done[argument] = value;
  auto mapped = [&](ValueRange operands) {
    SmallVector<Value> result;
    for (Value operand : operands) {
      Value value = done.lookup(operand);
      result.push_back(value ? value : broadcast(values.lookupOrDefault(operand), width));
    }
    return result;
  };
  for (Operation &op : block.without_terminator())
    done[op.getResult(0)] = elementwise(&op, mapped(op.getOperands()), width);
  return mapped(block.getTerminator()->getOperands());
}

void forChunks(KernelBuilder &b, int64_t begin, int64_t end, int64_t lanes, int64_t unroll,
               function_ref<void(Value, int64_t)> body) {
  int64_t at = begin, step = lanes * unroll;
  if (int64_t iterations = (end - begin) / step; iterations > 1) {
    at = begin + iterations * step;
    b.loop(b.index(begin), b.index(at), step, [&](Value start) {
      for (int64_t i = 0; i < unroll; ++i)
        body(b.add(start, b.index(i * lanes)), lanes);
    });
  }
  for (int64_t width = lanes; width > 0; width /= 2)
    for (; end - at >= width; at += width)
      body(b.index(at), width);
}

} // namespace gemma::codegen
