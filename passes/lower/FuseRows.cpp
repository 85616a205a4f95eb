// gemma-fuse-rows
//
// Input:  a kernel whose core ops pass rows to each other through memory.
// Output: the same kernel with fewer kernel.rows.
//
//   kernel.rows ... ins(%x, %w) outs(%s) {norm}          kernel.rows ... ins(%x, %w, %h)
//   kernel.rows ... ins(%s, %h) outs(%y) {residual}  ->    outs(%y) {norm, residual}
//
// On GPUs every pass over memory costs a barrier and a latency, and shared memory is scarce.
// Lowering calls this for them before a kernel gets its name, which is made of its body. On the
// host rows lie in the first cache, and ops of their own are as fast.
#include "passes/lower/FuseRows.h"

#include "passes/Passes.h"

#include "mlir/IR/IRMapping.h"

namespace gemma::passes {
#define GEN_PASS_DEF_FUSEROWS
#include "passes/Passes.h.inc"
} // namespace gemma::passes

using namespace mlir;

namespace gemma::passes {
namespace {

bool isScratch(Value memory) { return memory.getDefiningOp<kernel::ScratchOp>() != nullptr; }

/// An input or output: its memory, and where in it the rows lie.
struct Access {
  Value memory;
  AffineMap map;
  bool swizzled;
  bool operator==(const Access &) const = default;
};

/// The parts of a kernel.rows, to be put together anew. Maps are over (t, h, e) and `lookups`.
struct Parts {
  SmallVector<Access> inputs, outputs;
  SmallVector<Value> lookups;
};

Parts partsOf(kernel::RowsOp op) {
  Parts parts;
  parts.lookups = llvm::to_vector(op.getLookups());
  SmallVector<AffineMap> maps(op.getMaps().getAsValueRange<AffineMapAttr>());
  ArrayRef<int64_t> swizzled = op.getSwizzled().value_or(ArrayRef<int64_t>());
  auto isSwizzled = [&](size_t i) { return llvm::is_contained(swizzled, static_cast<int64_t>(i)); };
  size_t i = 0;
  for (Value input : op.getInputs())
    parts.inputs.push_back({input, maps[i], isSwizzled(i)}), ++i;
  for (Value output : op.getOutputs())
    parts.outputs.push_back({output, maps[i], isSwizzled(i)}), ++i;
  return parts;
}

/// Rewrites the maps of `parts` for lookups that `all` begins with or gets.
void shareLookups(Parts &parts, SmallVectorImpl<Value> &all) {
  SmallVector<unsigned> places;
  for (Value lookup : parts.lookups) {
    places.push_back(static_cast<unsigned>(llvm::find(all, lookup) - all.begin()));
    if (places.back() == all.size())
      all.push_back(lookup);
  }
  auto rewrite = [&](Access &access) {
    MLIRContext *context = access.map.getContext();
    SmallVector<AffineExpr> dims;
    for (unsigned i = 0; i < 3; ++i)
      dims.push_back(getAffineDimExpr(i, context));
    for (unsigned place : places)
      dims.push_back(getAffineDimExpr(3 + place, context));
    access.map = access.map.replaceDimsAndSymbols(dims, {}, static_cast<unsigned>(3 + all.size()),
                                                  /*numResultSyms=*/0);
  };
  llvm::for_each(parts.inputs, rewrite);
  llvm::for_each(parts.outputs, rewrite);
}

/// Whether `later` touches what `earlier` writes, or writes what it touches.
bool conflict(Operation *earlier, Operation *later) {
  bool found = false;
  kernel::forEachAccess(earlier, [&](Value memory, kernel::Access access) {
    kernel::forEachAccess(later, [&](Value other, kernel::Access otherAccess) {
      found |= memory == other &&
               (access != kernel::Access::Read || otherAccess != kernel::Access::Read);
    });
  });
  return found;
}

class Fusion {
public:
  Fusion(kernel::RowsOp producer, kernel::RowsOp consumer)
      : producer(producer), consumer(consumer), first(partsOf(producer)),
        second(partsOf(consumer)) {}

  /// Whether the consumer can run in the producer's place, row by row after it.
  bool isPossible() {
    if (producer.getDomain() != consumer.getDomain() ||
        producer.getExtent() != consumer.getExtent() || producer.getBlock() != consumer.getBlock())
      return false;
    for (Operation *between = producer->getNextNode(); between != consumer;
         between = between->getNextNode())
      if (conflict(between, consumer))
        return false;
    // Its operands are there already, and it changes none of them in place, which is done element
    // by element.
    for (Value operand : consumer->getOperands())
      if (Operation *source = operand.getDefiningOp();
          source && source->getBlock() == producer->getBlock() && producer->isBeforeInBlock(source))
        return false;
    for (Value output : consumer.getOutputs())
      if (llvm::is_contained(consumer.getInputs(), output))
        return false;
    for (Value lookup : consumer.getLookups())
      if (llvm::is_contained(producer.getOutputs(), lookup))
        return false;
    // One block stores what does not lie in scratch, or all do.
    bool once = producer.getOnce() || consumer.getOnce();
    for (kernel::RowsOp op : {producer, consumer})
      if (once && !op.getOnce() && !llvm::all_of(op.getOutputs(), isScratch))
        return false;
    all = first.lookups;
    shareLookups(second, all);
    shareLookups(first, all);
    return findPassed();
  }

  void run() {
    OpBuilder builder(producer);
    Block &made = producer.getBody().front(), &added = consumer.getBody().front();
    IRMapping values;
    for (auto [i, input] : llvm::enumerate(second.inputs)) {
      BlockArgument argument = added.getArgument(static_cast<unsigned>(i));
      values.map(argument, passed[i] ? passed[i] : inputOf(made, input, argument));
    }
    Operation *yield = made.getTerminator();
    SmallVector<Value> results(yield->getOperands());
    builder.setInsertionPoint(yield);
    for (Operation &op : added.without_terminator())
      builder.clone(op, values);
    dropUnread(results);
    llvm::append_range(first.outputs, second.outputs);
    for (Value result : added.getTerminator()->getOperands())
      results.push_back(values.lookupOrDefault(result));
    kernel::YieldOp::create(builder, yield->getLoc(), results);
    yield->erase();
    rebuild();
  }

private:
  /// Finds which inputs of the consumer are rows that the producer has just made; false if it reads
  /// others of them, or writes what the producer touches.
  bool findPassed() {
    Operation *yield = producer.getBody().front().getTerminator();
    bool any = false;
    for (auto [i, input] : llvm::enumerate(second.inputs)) {
      Value row;
      for (auto [o, output] : llvm::enumerate(first.outputs)) {
        if (input.memory != output.memory)
          continue;
        row = yield->getOperand(static_cast<unsigned>(o));
        Type element = cast<MemRefType>(input.memory.getType()).getElementType();
        Type read = consumer.getBody().front().getArgument(static_cast<unsigned>(i)).getType();
        // A row that memory would have rounded, or of which another part is read, is not this one.
        if (input != output || row.getType() != read || getElementTypeOrSelf(read) != element)
          return false;
      }
      passed.push_back(row);
      any |= row != nullptr;
    }
    for (const Access &output : second.outputs)
      for (const auto &touched : {first.inputs, first.outputs})
        for (const Access &other : touched)
          if (other.memory == output.memory)
            return false;
    return any;
  }

  /// The argument of the merged body for an input of the consumer.
  Value inputOf(Block &body, const Access &input, BlockArgument argument) {
    for (auto [i, known] : llvm::enumerate(first.inputs)) {
      BlockArgument same = body.getArgument(static_cast<unsigned>(i));
      if (known == input && same.getType() == argument.getType())
        return same;
    }
    first.inputs.push_back(input);
    return body.addArgument(argument.getType(), argument.getLoc());
  }

  /// Leaves out the producer's rows in scratch that only the two read.
  void dropUnread(SmallVectorImpl<Value> &results) {
    SmallVector<Access> kept;
    SmallVector<Value> keptResults;
    for (auto [output, result] : llvm::zip_equal(first.outputs, results)) {
      bool isRead =
          !isScratch(output.memory) || llvm::any_of(output.memory.getUsers(), [&](Operation *user) {
            return user != producer && user != consumer;
          });
      if (!isRead)
        continue;
      kept.push_back(output);
      keptResults.push_back(result);
    }
    first.outputs = std::move(kept);
    results = std::move(keptResults);
  }

  /// The producer with the merged operands and body, in place of both.
  void rebuild() {
    OpBuilder builder(producer);
    SmallVector<Value> inputs, outputs;
    SmallVector<AffineMap> maps;
    SmallVector<int64_t> swizzled;
    for (auto *side : {&first.inputs, &first.outputs})
      for (const Access &access : *side) {
        (side == &first.inputs ? inputs : outputs).push_back(access.memory);
        if (access.swizzled)
          swizzled.push_back(static_cast<int64_t>(maps.size()));
        maps.push_back(access.map);
      }
    auto merged = kernel::RowsOp::create(
        builder, builder.getFusedLoc({producer.getLoc(), consumer.getLoc()}), producer.getBlock(),
        inputs, outputs, all, producer.getDomain(), producer.getExtent(),
        builder.getAffineMapArrayAttr(maps), producer.getOnce() || consumer.getOnce(),
        swizzled.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(swizzled));
    merged.getBody().takeBody(producer.getBody());
    producer.erase();
    consumer.erase();
  }

  kernel::RowsOp producer, consumer;
  Parts first, second;
  SmallVector<Value> all;    ///< lookups of both
  SmallVector<Value> passed; ///< for each input of the consumer: the producer's row, or null
};

/// Merges one op of the block into an earlier one; false if there is none left.
bool fuseOne(Block &block) {
  SmallVector<kernel::RowsOp> earlier;
  for (auto op : block.getOps<kernel::RowsOp>()) {
    for (kernel::RowsOp producer : llvm::reverse(earlier))
      if (Fusion fusion(producer, op); fusion.isPossible()) {
        fusion.run();
        return true;
      }
    earlier.push_back(op);
  }
  return false;
}

struct FuseRowsPass : gemma::passes::impl::FuseRowsBase<FuseRowsPass> {
  void runOnOperation() override { fuseRows(getOperation()); }
};

} // namespace

void fuseRows(kernel::FuncOp function) {
  SmallVector<Block *> blocks = {&function.getBody().front()};
  for (auto grid : function.getBody().front().getOps<kernel::GridOp>())
    blocks.push_back(&grid.getBody().front());
  for (Block *block : blocks)
    while (fuseOne(*block)) {
    }
  for (auto scratch :
       llvm::make_early_inc_range(function.getBody().front().getOps<kernel::ScratchOp>()))
    if (scratch->use_empty())
      scratch.erase();
}

} // namespace gemma::passes
