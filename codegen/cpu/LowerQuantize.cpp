// kernel.quantize -> for each group of 32 columns its largest magnitude, then its codes, by
// instructions that every instruction set has: magnitudes are compared as integers (a NaN is then
// the largest), and a float is rounded by adding 1.5 · 2^23, whose lower bits are the integer.
#include "codegen/cpu/Lowering.h"
#include "dialect/program/Layout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace gemma::codegen {
namespace {

constexpr int64_t groupColumns = program::kGroupColumns;
constexpr int32_t leastMagnitude = (127 - 100) << 23; ///< the bits of 2^-100
constexpr double roundingTerm = 0x1.8p23;
constexpr int64_t roundingBits = 0x4b400000; ///< of that number

class QuantizeLowering {
public:
  QuantizeLowering(KernelBuilder &b, kernel::QuantizeOp op)
      : b(b), op(op), x(b.viewOf(op, op.getX())), codes(b.viewOf(op, op.getCodes())),
        scales(b.viewOf(op, op.getScales())), starts(b.viewOf(op, op.getStarts())) {}

  void run() {
    for (const View &view : {x, codes, scales, starts})
      if (view.type.getRank() != 2 || view.strides().back() != 1) {
        b.fail(op, "expected rows without gaps");
        return;
      }
    lanes = std::min(b.lanes(b.getF32Type()), groupColumns);
    if (!op.getBlock()) {
      b.loop(b.index(0), b.extent(op.getExtent()), 1, [&](Value row) { emitRow(row); });
      return;
    }
    Value row = b.values.lookup(op.getBlock());
    b.when(b.less(row, b.extent(op.getExtent())), [&] { emitRow(row); });
  }

private:
  void emitRow(Value row) {
    Type f32 = b.getF32Type();
    int64_t columns = x.dim(1), whole = columns / groupColumns;
    b.loop(b.index(0), b.index(whole), 1, [&](Value group) {
      SmallVector<Value> parts;
      Value first = b.mul(group, groupColumns);
      for (int64_t i = 0; i < groupColumns; i += lanes)
        parts.push_back(b.loadVector(x, {row, b.add(first, b.index(i))}, lanes, f32));
      emitGroup(row, group, parts);
    });
    if (columns % groupColumns == 0)
      return;
    // Columns that the last group does not have are zero.
    SmallVector<Value> parts, elements;
    for (int64_t k = whole * groupColumns; k < (whole + 1) * groupColumns; ++k)
      elements.push_back(k < columns ? b.loadScalar(x, {row, b.index(k)}, f32)
                                     : b.constant(f32, 0.0));
    for (int64_t i = 0; i < groupColumns; i += lanes)
      parts.push_back(
          vector::FromElementsOp::create(b, b.vec(f32, lanes), ArrayRef(elements).slice(i, lanes)));
    emitGroup(row, b.index(whole), parts);
  }

  void emitGroup(Value row, Value group, ArrayRef<Value> parts) {
    Type f32 = b.getF32Type(), i32 = b.getI32Type();
    auto floats = b.vec(f32, lanes), integers = b.vec(i32, lanes);
    double most = codes.element().isInteger(8) ? 127 : 32767;

    Value magnitudes;
    for (Value part : parts) {
      Value bits = arith::AndIOp::create(b, arith::BitcastOp::create(b, integers, part),
                                         b.integer(integers, 0x7fffffff));
      magnitudes = magnitudes ? Value(arith::MaxSIOp::create(b, magnitudes, bits)) : bits;
    }
    Value bits = vector::ReductionOp::create(b, vector::CombiningKind::MAXSI, magnitudes);
    Value largest = arith::BitcastOp::create(b, f32, bits);
    Value tiny =
        arith::CmpIOp::create(b, arith::CmpIPredicate::slt, bits, b.integer(i32, leastMagnitude));
    Value zero = b.constant(f32, 0.0), range = b.constant(f32, most);
    auto unlessTiny = [&](Value value) {
      return Value(arith::SelectOp::create(b, tiny, zero, value));
    };
    Value scale = unlessTiny(arith::DivFOp::create(b, largest, range));
    Value inverse = b.broadcast(unlessTiny(arith::DivFOp::create(b, range, largest)), lanes);
    b.storeScalar(scales, {row, group}, scale);

    Value sum;
    for (auto [i, part] : llvm::enumerate(parts)) {
      // The product is rounded before the sum: fused, another integer may be nearest.
      Value shifted = arith::AddFOp::create(b, arith::MulFOp::create(b, part, inverse),
                                            b.constant(floats, roundingTerm));
      Value code = arith::SubIOp::create(b, arith::BitcastOp::create(b, integers, shifted),
                                         b.integer(integers, roundingBits));
      sum = sum ? Value(arith::AddIOp::create(b, sum, code)) : code;
      storeCodes(row, b.add(b.mul(group, groupColumns), b.index(int64_t(i) * lanes)), code);
    }
    Value total = vector::ReductionOp::create(b, vector::CombiningKind::ADD, sum);
    Value start = arith::MulIOp::create(b, total, b.integer(i32, -int64_t(op.getZero())));
    memref::StoreOp::create(b, start, starts.memory, ValueRange{row, group});
  }

  void storeCodes(Value row, Value column, Value code) {
    if (codes.element().isInteger(16)) {
      SmallVector<int64_t> order;
      for (int64_t quad = 0; quad < lanes; quad += 4)
        order.append({quad, quad + 2, quad + 1, quad + 3});
      code = vector::ShuffleOp::create(b, code, code, order);
    }
    Value narrow = arith::TruncIOp::create(b, b.vec(codes.element(), lanes), code);
    vector::StoreOp::create(b, narrow, codes.memory, ValueRange{row, column});
  }

  KernelBuilder &b;
  kernel::QuantizeOp op;
  View x, codes, scales, starts;
  int64_t lanes = 0;
};

} // namespace

void lowerQuantize(KernelBuilder &b, kernel::QuantizeOp op) { QuantizeLowering(b, op).run(); }

} // namespace gemma::codegen
