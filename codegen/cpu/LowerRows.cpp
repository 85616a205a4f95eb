// kernel.rows -> a loop over (t, h); for each row first its reductions, then one loop that computes
// and stores all outputs a register at a time.
//
// A value of the body is never materialised: a register of it at element e is computed on demand
// from registers of its operands. Slices only shift e; where rows are put together from slices, the
// range is cut at the seams, so that each piece has one source.
#include "codegen/cpu/Lowering.h"
#include "codegen/support/RowBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace gemma::codegen {
namespace {

constexpr unsigned elementDim = 2; ///< e in (t, h, e, l0, ...)

/// How many elements of memory one step of e covers, or nothing if that differs from step to step.
std::optional<int64_t> strideOf(AffineExpr expr) {
  if (!expr.isFunctionOfDim(elementDim))
    return 0;
  if (isa<AffineDimExpr>(expr))
    return 1;
  auto binary = cast<AffineBinaryOpExpr>(expr);
  std::optional<int64_t> lhs = strideOf(binary.getLHS()), rhs = strideOf(binary.getRHS());
  if (!lhs || !rhs)
    return std::nullopt;
  if (expr.getKind() == AffineExprKind::Add)
    return *lhs + *rhs;
  auto factor = dyn_cast<AffineConstantExpr>(binary.getRHS());
  if (expr.getKind() == AffineExprKind::Mul && factor)
    return *lhs * factor.getValue();
  return std::nullopt;
}

/// An input or output: its memory and the map from (t, h, e, lookups) into it.
struct Access {
  View view;
  AffineMap map;
  std::optional<int64_t> stride; ///< in elements of memory, for one step of e

  Access(View view, AffineMap map) : view(view), map(map), stride(0) {
    for (auto [expr, dimStride] : llvm::zip_equal(map.getResults(), view.strides())) {
      std::optional<int64_t> step = strideOf(expr);
      stride = step && stride ? std::optional(*stride + *step * dimStride) : std::nullopt;
    }
  }
  bool contiguous() const { return stride == 1 && view.strides().back() == 1; }
};

/// A register of a row: elements [start + shift, start + shift + width), all within [lo, hi).
struct Chunk {
  Value start;
  int64_t shift, lo, hi, width;
  Chunk shifted(int64_t by) const { return {start, shift + by, lo + by, hi + by, width}; }
};

class RowsLowering {
public:
  RowsLowering(KernelBuilder &b, kernel::RowsOp op) : b(b), op(op) {}

  void run() {
    if (!collectAccesses() || !checkInPlace())
      return;
    if (op.getOnce() && llvm::any_of(op.getOutputs(), [](Value memory) {
          return memory.getDefiningOp<kernel::ScratchOp>();
        }))
      b.fail(op, "stores scratch once, which only GPU kernels do");
    else if (op.getOnce())
      b.when(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, b.begin, b.index(0)),
             [&] { emitDomain(); });
    else
      emitDomain();
  }

private:
  bool collectAccesses() {
    auto maps = op.getMaps().getAsValueRange<AffineMapAttr>();
    SmallVector<Value> memories(op.getInputs());
    llvm::append_range(memories, op.getOutputs());
    SmallVector<AffineMap> all(maps.begin(), maps.end());
    Block &body = op.getBody().front();
    if (all.size() != memories.size() || body.getNumArguments() != op.getInputs().size() ||
        body.getTerminator()->getNumOperands() != op.getOutputs().size()) {
      b.fail(op, "expected one map an input and output, one body argument an input and one yielded "
                 "row an output");
      return false;
    }
    for (auto [memory, map] : llvm::zip_equal(memories, all)) {
      View view = b.viewOf(op, memory);
      if (map.getNumResults() != static_cast<unsigned>(view.type.getRank()) ||
          map.getNumDims() != 3 + op.getLookups().size()) {
        b.fail(op, "expected maps (t, h, e, lookups) -> indices of the memref");
        return false;
      }
      accesses.emplace_back(view, map);
    }
    for (Value yielded : body.getTerminator()->getOperands())
      if (!isa<RankedTensorType>(yielded.getType())) {
        b.fail(op, "expected the body to yield rows");
        return false;
      }
    // The widest float decides how many elements make a register.
    widest = b.getF32Type();
    body.walk([&](Operation *inner) {
      for (Type type : inner->getOperandTypes())
        if (getElementTypeOrSelf(type).isF64())
          widest = b.getF64Type();
    });
    return !b.failed;
  }

  /// A row may be overwritten in place only element by element: each register is read before it is
  /// written, but nothing else is.
  bool checkInPlace() {
    for (auto [i, input] : llvm::enumerate(op.getInputs()))
      for (auto [o, output] : llvm::enumerate(op.getOutputs())) {
        if (input != output)
          continue;
        if (accesses[i].map != accesses[numInputs() + o].map || !isElementwise(op)) {
          b.fail(op, "overwrites an input that it reads at other elements");
          return false;
        }
      }
    return true;
  }

  unsigned numInputs() { return op.getInputs().size(); }

  void emitDomain() {
    SmallVector<Value> dims;
    if (Value block = op.getBlock())
      dims.push_back(b.values.lookup(block));
    AffineMap domain = op.getDomain();
    SmallVector<Value> bounds;
    for (AffineExpr expr : domain.getResults())
      bounds.push_back(b.apply(expr, dims, b.sizes));
    bounds[1] = b.minimum(bounds[1], b.extent(op.getExtent()));
    b.loop(bounds[0], bounds[1], 1, [&](Value t) {
      SmallVector<Value> lookups;
      for (Value lookup : op.getLookups())
        lookups.push_back(b.loadIndex(b.viewOf(op, lookup), t));
      b.loop(bounds[2], bounds[3], 1, [&](Value h) {
        position = {t, h, Value()};
        llvm::append_range(position, lookups);
        emitRow();
      });
    });
  }

  void emitRow() {
    scalars.clear();
    Block &body = op.getBody().front();
    for (BlockArgument argument : body.getArguments())
      if (!isa<RankedTensorType>(argument.getType())) {
        const Access &access = accesses[argument.getArgNumber()];
        scalars[argument] =
            b.loadScalar(access.view, indices(access, b.index(0)), computeType(argument.getType()));
      }
    // Scalars in the order of the body: reductions, and what is computed from them.
    for (Operation &inner : body.without_terminator()) {
      if (auto reduce = dyn_cast<kernel::ReduceOp>(inner))
        scalars[reduce.getY()] = emitReduce(reduce);
      else if (inner.getNumResults() == 1 && inner.getResult(0).getType().isIntOrFloat())
        emitScalar(inner);
    }
    emitStores(cast<kernel::YieldOp>(body.getTerminator()));
  }

  void emitScalar(Operation &inner) {
    SmallVector<Value> operands;
    for (Value operand : inner.getOperands())
      operands.push_back(scalar(operand));
    scalars[inner.getResult(0)] = b.elementwise(&inner, operands, /*width=*/0);
  }

  Value scalar(Value value) {
    auto it = scalars.find(value);
    return it != scalars.end() ? it->second : b.values.lookupOrDefault(value);
  }

  //===--- reductions and stores ---===//

  Value emitReduce(kernel::ReduceOp reduce) {
    constexpr int64_t independent = 4; // accumulators, to hide the latency of an addition
    Value x = reduce.getX();
    kernel::Reduction kind = reduce.getKind();
    Type element = reduce.getY().getType();
    int64_t lanes = b.lanes(widest);
    double neutral = kind == kernel::Reduction::Add ? 0.0 : -INFINITY;
    SmallVector<Value> accumulators(independent, b.constant(b.vec(element, lanes), neutral));
    Value rest; // of elements that do not fill a register
    forSegments(op, {x}, [&](int64_t lo, int64_t hi) {
      int64_t step = independent * lanes, at = lo;
      if (int64_t iterations = (hi - lo) / step; iterations > 1) {
        at = lo + iterations * step;
        accumulators = b.loop(
            b.index(lo), b.index(at), step, accumulators, [&](Value start, ValueRange carried) {
              cache.clear();
              SmallVector<Value> next;
              for (int64_t i = 0; i < independent; ++i)
                next.push_back(
                    b.combine(kind, carried[i],
                              evaluate(x, {b.add(start, b.index(i * lanes)), 0, lo, hi, lanes})));
              return next;
            });
      }
      cache.clear();
      for (int64_t i = 0; hi - at >= lanes; at += lanes, i = (i + 1) % independent)
        accumulators[i] =
            b.combine(kind, accumulators[i], evaluate(x, {b.index(at), 0, lo, hi, lanes}));
      for (int64_t width = lanes / 2; width > 0; width /= 2)
        for (; hi - at >= width; at += width) {
          Value part = b.reduceLanes(kind, evaluate(x, {b.index(at), 0, lo, hi, width}));
          rest = rest ? b.combine(kind, rest, part) : part;
        }
    });
    Value total =
        b.reduceLanes(kind, b.combine(kind, b.combine(kind, accumulators[0], accumulators[1]),
                                      b.combine(kind, accumulators[2], accumulators[3])));
    return rest ? b.combine(kind, total, rest) : total;
  }

  void emitStores(kernel::YieldOp yield) {
    // Rows of one length share a loop, so that what they have in common is computed once.
    llvm::MapVector<int64_t, SmallVector<unsigned>> byLength;
    for (auto [o, yielded] : llvm::enumerate(yield.getValues()))
      byLength[rowLength(yielded)].push_back(o);
    for (auto &[length, outputs] : byLength) {
      SmallVector<Value> rows;
      for (unsigned o : outputs)
        rows.push_back(yield.getValues()[o]);
      forSegments(op, rows, [&](int64_t lo, int64_t hi) {
        forChunks(b, lo, hi, b.lanes(widest), 2, [&](Value start, int64_t width) {
          cache.clear();
          SmallVector<Value> computed;
          for (Value row : rows)
            computed.push_back(evaluate(row, {start, 0, lo, hi, width}));
          for (auto [o, vector] : llvm::zip_equal(outputs, computed))
            storeRow(accesses[numInputs() + o], start, vector);
        });
      });
    }
  }

  //===--- one register ---===//

  Value evaluate(Value value, Chunk chunk) {
    if (!isa<RankedTensorType>(value.getType()))
      return b.broadcast(scalar(value), chunk.width);
    auto key =
        std::make_tuple(value.getAsOpaquePointer(), chunk.start.getAsOpaquePointer(), chunk.shift);
    if (auto it = cache.find(key); it != cache.end())
      return it->second;
    Value result = compute(value, chunk);
    cache[key] = result;
    return result;
  }

  Value compute(Value value, Chunk chunk) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return loadRow(accesses[argument.getArgNumber()], chunk, computeType(argument.getType()));
    Operation *source = value.getDefiningOp();
    if (auto extract = dyn_cast<tensor::ExtractSliceOp>(source))
      return evaluate(extract.getSource(), chunk.shifted(extract.getStaticOffsets()[0]));
    if (auto insert = dyn_cast<tensor::InsertSliceOp>(source)) {
      int64_t from = insert.getStaticOffsets()[0], to = from + insert.getStaticSizes()[0];
      if (from <= chunk.lo && chunk.hi <= to)
        return evaluate(insert.getSource(), chunk.shifted(-from));
      return evaluate(insert.getDest(), chunk);
    }
    if (isa<tensor::EmptyOp>(source))
      return b.constant(b.vec(computeType(value.getType()), chunk.width), 0.0);
    if (auto splat = dyn_cast<tensor::SplatOp>(source))
      return b.broadcast(scalar(splat.getInput()), chunk.width);
    SmallVector<Value> operands;
    for (Value operand : source->getOperands())
      operands.push_back(evaluate(operand, chunk));
    return b.elementwise(source, operands, chunk.width);
  }

  SmallVector<Value> indices(const Access &access, Value element) {
    SmallVector<Value> dims(position), result;
    dims[elementDim] = element;
    for (AffineExpr expr : access.map.getResults())
      result.push_back(b.apply(expr, dims, {}));
    return result;
  }

  Value loadRow(const Access &access, Chunk chunk, Type compute) {
    Value first = b.add(chunk.start, b.index(chunk.shift));
    if (access.contiguous())
      return b.loadVector(access.view, indices(access, first), chunk.width, compute);
    if (access.stride == 0)
      return b.broadcast(b.loadScalar(access.view, indices(access, first), compute), chunk.width);
    return b.gather(access.view, chunk.width, compute,
                    [&](int64_t lane) { return indices(access, b.add(first, b.index(lane))); });
  }

  void storeRow(const Access &access, Value start, Value vector) {
    if (access.contiguous())
      return b.storeVector(access.view, indices(access, start), vector);
    b.scatter(access.view, vector,
              [&](int64_t lane) { return indices(access, b.add(start, b.index(lane))); });
  }

  KernelBuilder &b;
  kernel::RowsOp op;
  SmallVector<Access> accesses; ///< inputs, then outputs
  Type widest;
  SmallVector<Value> position;                                            ///< t, h, (e), lookups
  llvm::DenseMap<Value, Value> scalars;                                   ///< of the current row
  std::map<std::tuple<const void *, const void *, int64_t>, Value> cache; ///< of the current chunk
};

} // namespace

void lowerRows(KernelBuilder &b, kernel::RowsOp op) { RowsLowering(b, op).run(); }

} // namespace gemma::codegen
