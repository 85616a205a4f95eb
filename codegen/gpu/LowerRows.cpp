// kernel.rows -> threads across a row. A single row belongs to all threads of the block; of several
// rows each belongs to one warp, unless they are long. Reductions go through shuffles, and for a
// block's row through shared memory.
//
// A value of the body is never materialised: a thread computes `width` elements of it from as many
// of its operands. Slices only shift the elements; where rows are put together from slices, the
// range is cut at the seams, so that each piece has one source. What a thread computed for a
// reduction it keeps in registers for the stores.
#include "codegen/gpu/Lowering.h"
#include "codegen/gpu/RowAccess.h"
#include "codegen/support/RowBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace gemma::codegen::cuda {
namespace {

constexpr int64_t longestRowOfWarp = 2048; ///< longer ones keep too many registers, or loop
/// Chunks that a thread keeps in registers: more in a projection, whose sums begin after the rows.
constexpr int64_t mostUnrolled = 4, mostInProjection = 6;

/// A thread's piece of a row: elements [start + shift, start + shift + width), all within [lo, hi).
/// start is lo - shift plus a multiple of width.
struct Chunk {
  Value start;
  int64_t shift, lo, hi, width;
  Value inside; ///< whether the thread has this chunk; null: every thread has
  /// Whether all lanes of a warp come here together, and eight neighbours (from a multiple of 8 on)
  /// all have a chunk or none has.
  bool together;
  Chunk shifted(int64_t by) const {
    return {start, shift + by, lo + by, hi + by, width, inside, together};
  }
};

class RowsLowering {
public:
  RowsLowering(GpuBuilder &b, kernel::RowsOp op) : b(b), op(op) {}

  void run() {
    if (!collectAccesses() || !checkInPlace())
      return;
    if (op.getOnce() && llvm::none_of(op.getOutputs(), isScratch))
      b.when(isFirstBlock(), [&] { emitDomain(); });
    else
      emitDomain();
  }

private:
  static bool isScratch(Value memory) { return memory.getDefiningOp<kernel::ScratchOp>(); }
  Value isFirstBlock() { return b.equal(b.block, b.index(0)); }

  bool collectAccesses() {
    SmallVector<Value> memories(op.getInputs());
    llvm::append_range(memories, op.getOutputs());
    for (auto [memory, map] :
         llvm::zip_equal(memories, op.getMaps().getAsValueRange<AffineMapAttr>()))
      accesses.push_back({b.viewOf(op, memory), map});
    for (int64_t memory : op.getSwizzled().value_or(ArrayRef<int64_t>()))
      accesses[static_cast<size_t>(memory)].swizzled = true;
    for (const RowAccess &access : accesses)
      if (access.view.element().isF64())
        b.fail(op, "holds f64, which GPU kernels do not compute with");
    return !b.failed;
  }

  /// A row may be overwritten in place only element by element: each element is read by the thread
  /// that writes it.
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

  //===--- which thread has which row ---===//

  /// hi - lo of the domain's dimension, if it is the same for every block.
  std::optional<int64_t> constantExtent(unsigned lo) {
    AffineMap domain = op.getDomain();
    AffineExpr difference = simplifyAffineExpr(domain.getResult(lo + 1) - domain.getResult(lo),
                                               domain.getNumDims(), domain.getNumSymbols());
    auto constant = dyn_cast<AffineConstantExpr>(difference);
    return constant ? std::optional(constant.getValue()) : std::nullopt;
  }

  void emitDomain() {
    SmallVector<Value> dims;
    if (Value block = op.getBlock())
      dims.push_back(b.values.lookup(block));
    SmallVector<Value> bounds;
    for (AffineExpr expr : op.getDomain().getResults())
      bounds.push_back(b.apply(expr, dims, b.sizes));
    bounds[1] = b.minimum(bounds[1], b.extent(op.getExtent()));

    int64_t longest = 0;
    for (Value yielded : op.getBody().front().getTerminator()->getOperands())
      longest = std::max(longest, rowLength(yielded));
    bool oneToken = constantExtent(0) == 1, oneHead = constantExtent(2) == 1;
    bool ofWarp = !(oneToken && oneHead) && longest <= longestRowOfWarp;
    team = ofWarp ? 32 : b.threads;
    member = ofWarp ? b.lane : b.thread;
    Value one = b.index(1), warps = b.index(b.warps());
    // Of a warp's rows, tokens are dealt out where there is one head, heads else.
    Value firstToken = ofWarp && oneHead ? b.add(bounds[0], b.warp) : bounds[0];
    Value firstHead = ofWarp && !oneHead ? b.add(bounds[2], b.warp) : bounds[2];
    b.loop(firstToken, bounds[1], ofWarp && oneHead ? warps : one, [&](Value t) {
      SmallVector<Value> lookups;
      for (Value lookup : op.getLookups())
        lookups.push_back(b.loadIndex(b.viewOf(op, lookup), t));
      b.loop(firstHead, bounds[3], ofWarp && !oneHead ? warps : one, [&](Value h) {
        position = {t, h, Value()};
        llvm::append_range(position, lookups);
        emitRow();
      });
    });
  }

  void emitRow() {
    scalars.clear();
    cache.clear();
    starts.clear();
    Block &body = op.getBody().front();
    for (BlockArgument argument : body.getArguments())
      if (!isa<RankedTensorType>(argument.getType())) {
        const RowAccess &access = accesses[argument.getArgNumber()];
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

  //===--- chunks ---===//

  /// Elements of a chunk of [lo, hi): 16 bytes of the narrowest memory, fewer if the range is not a
  /// multiple. Threads with nothing to do cost less than accesses of half the width.
  int64_t chunkWidth(int64_t lo, int64_t hi) {
    int64_t width = 4, length = hi - lo;
    for (const RowAccess &access : accesses)
      if (access.view.elementBytes() == 2)
        width = 8;
    while (length % width != 0)
      width /= 2;
    return width;
  }

  /// Calls `body` for this thread's chunks of [lo, hi), with values that it carries from one to the
  /// next. Few chunks are unrolled and what was computed for them is kept.
  SmallVector<Value> forChunks(int64_t lo, int64_t hi, ValueRange carried,
                               function_ref<SmallVector<Value>(Chunk, ValueRange)> body) {
    int64_t width = chunkWidth(lo, hi), step = width * team;
    int64_t iterations = llvm::divideCeil(hi - lo, step);
    bool inProjection = !op->getParentOfType<kernel::GridOp>();
    if (iterations <= (inProjection ? mostInProjection : mostUnrolled)) {
      SmallVector<Value> state(carried);
      for (int64_t i = 0; i < iterations; ++i)
        state = body(unrolledChunk(lo, hi, width, i), state);
      return state;
    }
    Value first = b.add(b.mul(member, width), lo);
    bool together = (hi - lo) % (32 * width) == 0;
    return b.loop(first, b.index(hi), b.index(step), carried, [&](Value start, ValueRange state) {
      auto saved = cache;
      SmallVector<Value> next = body({start, 0, lo, hi, width, Value(), together}, state);
      cache = saved;
      return next;
    });
  }

  Chunk unrolledChunk(int64_t lo, int64_t hi, int64_t width, int64_t i) {
    auto [it, isNew] = starts.try_emplace({lo, hi, i});
    if (isNew) {
      int64_t step = width * team;
      Value start = b.add(b.mul(member, width), lo + i * step);
      Value inside = lo + (i + 1) * step > hi ? b.less(start, b.index(hi)) : Value();
      it->second = {start, 0, lo, hi, width, inside, (hi - lo) % (8 * width) == 0};
    }
    return it->second;
  }

  //===--- reductions and stores ---===//

  Value emitReduce(kernel::ReduceOp reduce) {
    Value x = reduce.getX();
    kernel::Reduction kind = reduce.getKind();
    Type element = reduce.getY().getType();
    if (!element.isF32()) {
      b.fail(reduce, "reduces something else than f32");
      return b.f32(0);
    }
    Value total = b.neutral(kind, element);
    forSegments(op, {x}, [&](int64_t lo, int64_t hi) {
      total = forChunks(lo, hi, total, [&](Chunk chunk, ValueRange carried) {
                Value part = b.reduceLanes(kind, evaluate(x, chunk));
                if (chunk.inside)
                  part = b.select(chunk.inside, part, b.neutral(kind, element));
                return SmallVector<Value>{b.combine(kind, carried[0], part)};
              }).front();
    });
    return team == 32 ? b.reduceGroup(kind, total, 32) : b.reduceBlock(kind, total);
  }

  void emitStores(kernel::YieldOp yield) {
    // Rows of one length share their chunks, so that what they have in common is computed once.
    llvm::MapVector<int64_t, SmallVector<unsigned>> byLength;
    for (auto [o, yielded] : llvm::enumerate(yield.getValues()))
      byLength[rowLength(yielded)].push_back(o);
    for (auto &[length, outputs] : byLength) {
      SmallVector<Value> rows;
      for (unsigned o : outputs)
        rows.push_back(yield.getValues()[o]);
      forSegments(op, rows, [&](int64_t lo, int64_t hi) {
        forChunks(lo, hi, {}, [&](Chunk chunk, ValueRange) {
          SmallVector<Store> computed;
          for (auto [o, row] : llvm::zip_equal(outputs, rows))
            computed.push_back(
                prepareStore(accesses[numInputs() + o], chunk, evaluate(row, chunk)));
          auto store = [&] {
            for (auto [o, prepared] : llvm::zip_equal(outputs, computed)) {
              auto storeOne = [&] { storeRow(accesses[numInputs() + o], chunk, prepared); };
              // What does not lie in scratch is stored by the first block alone, if `once`.
              if (op.getOnce() && !isScratch(op.getOutputs()[o]))
                b.when(isFirstBlock(), storeOne);
              else
                storeOne();
            }
          };
          if (chunk.inside)
            b.when(chunk.inside, store);
          else
            store();
          return SmallVector<Value>();
        });
      });
    }
  }

  //===--- one chunk ---===//

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

  SmallVector<Value> indices(const RowAccess &access, Value element) {
    SmallVector<Value> dims(position), result;
    dims[elementDim] = element;
    for (AffineExpr expr : access.map.getResults())
      result.push_back(b.apply(expr, dims, {}));
    if (access.swizzled) {
      Value column = result.back(), row = result[result.size() - 2];
      result.back() = b.bitXor(column, b.mul(row, 8));
    }
    return result;
  }

  /// Whether the chunk is eight f32 side by side.
  bool isOctet(const RowAccess &access, const Chunk &chunk) {
    return chunk.width == 8 && access.view.element().isF32() &&
           access.stride(chunk.width, chunk.lo) == 1 && alignment(access, chunk) == 16;
  }

  bool movesHalves(const RowAccess &access, const Chunk &chunk) {
    return chunk.together && !access.view.shared() && isOctet(access, chunk);
  }

  Value loadHalves(const RowAccess &access, const Chunk &chunk) {
    auto load = [&] {
      Value from = b.pointer(access.view, indices(access, b.add(chunk.start, chunk.shift)));
      auto [first, second] = b.loadHalves(from, access.view.constant);
      return SmallVector<Value>{first, second};
    };
    SmallVector<Value> none(2, b.constant(b.vec(b.getF32Type(), 4), 0.0));
    SmallVector<Value> halves = chunk.inside ? b.choose(chunk.inside, none, load) : load();
    return b.joinHalves(b.exchangeHalves({halves[0], halves[1]}));
  }

  Value loadRow(const RowAccess &access, Chunk chunk, Type compute) {
    if (compute.isF32() && movesHalves(access, chunk))
      return loadHalves(access, chunk);
    auto load = [&]() -> Value {
      Value first = b.add(chunk.start, chunk.shift);
      std::optional<int64_t> stride = access.stride(chunk.width, chunk.lo);
      if (compute.isF32() && access.view.shared() && isOctet(access, chunk))
        return b.loadSharedOctet(b.pointer(access.view, indices(access, first)));
      if (stride == 1)
        return b.loadVector(access.view, indices(access, first), chunk.width, compute,
                            alignment(access, chunk));
      if (stride == 0)
        return b.broadcast(b.loadScalar(access.view, indices(access, first), compute), chunk.width);
      SmallVector<Value> elements;
      for (int64_t i = 0; i < chunk.width; ++i)
        elements.push_back(b.loadScalar(access.view, indices(access, b.add(first, i)), compute));
      return b.fromElements(elements);
    };
    if (!chunk.inside)
      return load();
    return b
        .choose(chunk.inside, b.constant(b.vec(compute, chunk.width), 0.0),
                [&] { return SmallVector<Value>{load()}; })
        .front();
  }

  /// What of a store all lanes of a warp do together.
  struct Store {
    Value vector;
    std::pair<Value, Value> halves; ///< exchanged, where these are moved
  };

  Store prepareStore(const RowAccess &access, Chunk chunk, Value vector) {
    if (!movesHalves(access, chunk))
      return {vector, {}};
    return {vector, b.exchangeHalves(b.splitOctet(b.round(vector, b.getF32Type())))};
  }

  void storeRow(const RowAccess &access, Chunk chunk, const Store &store) {
    Value vector = store.vector;
    if (store.halves.first)
      return b.storeHalves(b.pointer(access.view, indices(access, chunk.start)), store.halves);
    if (access.view.shared() && isOctet(access, chunk))
      return b.storeSharedOctet(b.pointer(access.view, indices(access, chunk.start)),
                                b.round(vector, b.getF32Type()));
    if (access.stride(chunk.width, chunk.lo) == 1)
      return b.storeVector(access.view, indices(access, chunk.start), vector,
                           alignment(access, chunk));
    Value rounded = b.round(vector, access.view.element());
    for (int64_t i = 0; i < chunk.width; ++i)
      b.storeScalar(access.view, indices(access, b.add(chunk.start, i)), b.extract(rounded, i));
  }

  int64_t alignment(const RowAccess &access, const Chunk &chunk) {
    // A swizzle moves whole 16-byte chunks.
    return std::max(access.alignment(chunk.width, chunk.lo), access.view.elementBytes());
  }

  GpuBuilder &b;
  kernel::RowsOp op;
  SmallVector<RowAccess> accesses;      ///< inputs, then outputs
  int64_t team = 0;                     ///< threads of a row
  Value member;                         ///< this thread's number among them
  SmallVector<Value> position;          ///< t, h, (e), lookups
  llvm::DenseMap<Value, Value> scalars; ///< of the current row
  std::map<std::tuple<const void *, const void *, int64_t>, Value> cache; ///< of the current row
  std::map<std::tuple<int64_t, int64_t, int64_t>, Chunk> starts;          ///< unrolled chunks
};

} // namespace

void lowerRows(GpuBuilder &b, kernel::RowsOp op) { RowsLowering(b, op).run(); }

} // namespace gemma::codegen::cuda
