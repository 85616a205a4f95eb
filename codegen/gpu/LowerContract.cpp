// kernel.contract: which steps of which tiles a block computes (ContractTile.h says how).
//
// Without `segments` a block has one tile and all its k. With them it has a run of steps, which may
// begin and end within a tile (stream-K: Osama et al., "Stream-K: Work-centric Parallel
// Decomposition for Dense Matrix-Matrix Multiplication on the GPU", 2023). The ring goes on over
// tiles, so that copies never pause; what a block has of a tile that it shares it leaves in memory,
// and the last of the tile's blocks adds all parts in the order of k.
#include "codegen/gpu/ContractTile.h"
#include "codegen/gpu/LastArrival.h"
#include "codegen/gpu/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace gemma::codegen::cuda {
namespace {

/// The slot after this one in a ring.
Value nextSlot(GpuBuilder &b, Value slot, int64_t slots) {
  Value after = b.add(slot, 1);
  return b.select(b.equal(after, b.index(slots)), b.index(0), after);
}

} // namespace

/// What a block does of a contraction.
class ContractLowering {
public:
  virtual ~ContractLowering() = default;
  virtual void fetch() = 0;
  virtual void emit() = 0;
};

namespace {

/// A block a tile.
class TileLowering : public ContractLowering {
public:
  TileLowering(GpuBuilder &b, kernel::ContractOp op) : b(b), tile(b, op) {}

  void fetch() override {
    if (!tile.check())
      return;
    tile.takeShared(/*resultsInRing=*/true);
    origin = tile.origin(b.block);
    for (int64_t s = 0; s < tile.stages() - 1; ++s) {
      if (s < tile.steps())
        tile.copyStep(origin, b.index(s), b.index(s));
      b.commitCopies();
    }
  }

  void emit() override {
    int64_t steps = tile.steps(), stages = tile.stages();
    SmallVector<Value> state = tile.zeros();
    state.push_back(b.index(0));          // the slot to read
    state.push_back(b.index(stages - 1)); // the slot to fill
    state =
        b.loop(b.index(0), b.index(steps), b.index(1), state, [&](Value step, ValueRange carried) {
          Value reading = carried[carried.size() - 2], filling = carried.back();
          b.waitCopies(stages - 2);
          // All copies of the step are here, and nobody reads the slot to fill.
          b.barrier();
          Value ahead = b.add(step, stages - 1);
          b.when(b.less(ahead, b.index(steps)), [&] { tile.copyStep(origin, ahead, filling); });
          b.commitCopies();
          SmallVector<Value> sums(carried.drop_back(2));
          tile.addStep(step, reading, sums);
          sums.push_back(nextSlot(b, reading, stages));
          sums.push_back(nextSlot(b, filling, stages));
          return sums;
        });
    b.waitCopies(0);
    b.barrier();
    state.truncate(state.size() - 2);
    tile.store(origin, state);
  }

private:
  GpuBuilder &b;
  ContractTile tile;
  TileOrigin origin;
};

/// A block a run of steps. Steps are numbered through all tiles.
class StreamLowering : public ContractLowering {
public:
  StreamLowering(GpuBuilder &b, kernel::ContractOp op)
      : b(b), tile(b, op), partials(b.viewOf(op, op.getPartials())),
        tickets(b.viewOf(op, op.getTickets())), segments(op.getGpuTileAttr().getSegments()) {}

  void fetch() override {
    if (!tile.check())
      return;
    tile.takeShared(/*resultsInRing=*/false);
    arrival.emplace(b);
    Value total = b.mul(tile.tilesOfStep(), tile.steps());
    each = b.floorDiv(total, segments);
    longer = b.sub(total, b.mul(each, segments));
    begin = firstStep(b.block);
    end = firstStep(b.add(b.block, 1));
    reading = ahead = placeOf(begin);
    for (int64_t s = 0; s < tile.stages() - 1; ++s) {
      b.when(b.less(b.add(begin, s), end),
             [&] { tile.copyStep(tile.origin(ahead.tile), ahead.step, b.index(s)); });
      b.commitCopies();
      ahead = after(ahead);
    }
  }

  void emit() override {
    int64_t stages = tile.stages();
    SmallVector<Value> state = tile.zeros();
    state.append(
        {reading.tile, reading.step, b.index(0), ahead.tile, ahead.step, b.index(stages - 1)});
    b.loop(begin, end, b.index(1), state, [&](Value number, ValueRange carried) {
      SmallVector<Value> sums(carried.drop_back(6));
      ValueRange rest = carried.take_back(6);
      Place here{rest[0], rest[1]}, next{rest[3], rest[4]};
      b.waitCopies(stages - 2);
      // All copies of the step are here, and nobody reads the slot to fill or the last results.
      b.barrier();
      b.when(b.less(b.add(number, stages - 1), end),
             [&] { tile.copyStep(tile.origin(next.tile), next.step, rest[5]); });
      b.commitCopies();
      tile.addStep(here.step, rest[2], sums);
      Value endsTile = b.equal(here.step, b.index(tile.steps() - 1));
      Value ends = arith::OrIOp::create(b, endsTile, b.equal(b.add(number, 1), end));
      sums = b.choose(ends, sums, [&] {
        finish(here.tile, b.sub(number, here.step), endsTile, sums);
        return tile.zeros();
      });
      here = after(here);
      next = after(next);
      sums.append({here.tile, here.step, nextSlot(b, rest[2], stages), next.tile, next.step,
                   nextSlot(b, rest[5], stages)});
      return sums;
    });
    b.waitCopies(0);
  }

private:
  /// A step of a tile, both by number.
  struct Place {
    Value tile, step;
  };

  Place placeOf(Value number) {
    return {b.floorDiv(number, tile.steps()), b.mod(number, tile.steps())};
  }
  Place after(const Place &place) {
    Value step = b.add(place.step, 1), last = b.equal(step, b.index(tile.steps()));
    return {b.select(last, b.add(place.tile, 1), place.tile), b.select(last, b.index(0), step)};
  }

  /// The first `longer` blocks have a step more.
  Value firstStep(Value ofBlock) {
    return b.add(arith::MulIOp::create(b, ofBlock, each), b.minimum(ofBlock, longer));
  }
  Value blockOf(Value number) {
    Value longRun = b.add(each, 1), longSteps = arith::MulIOp::create(b, longer, longRun);
    Value shortRun = b.maximum(each, b.index(1)); // 0 where there are fewer steps than blocks
    Value late = b.add(longer, arith::DivUIOp::create(b, b.sub(number, longSteps), shortRun));
    return b.select(b.less(number, longSteps), arith::DivUIOp::create(b, number, longRun), late);
  }

  /// Of the last step of this block in a tile, which begins with step `tileBegin`.
  void finish(Value number, Value tileBegin, Value endsTile, ArrayRef<Value> sums) {
    Value beginsHere = b.notLess(tileBegin, begin);
    SmallVector<Value> whole = {b.truth(true)};
    llvm::append_range(whole, sums);
    Value shared = b.negate(b.both(beginsHere, endsTile));
    SmallVector<Value> ready =
        b.choose(shared, whole, [&] { return combine(tileBegin, beginsHere, sums); });
    b.when(ready.front(),
           [&] { tile.store(tile.origin(number), ArrayRef<Value>(ready).drop_front()); });
  }

  /// Leaves the sums of a part of a tile in memory; whether this block is the last to do so, and
  /// then the tile's sums.
  SmallVector<Value> combine(Value tileBegin, Value beginsHere, ArrayRef<Value> sums) {
    // A block has at most two parts: one that begins before its run, one that ends after it.
    Value isSecond = b.select(beginsHere, b.index(1), b.index(0));
    forParts(b.add(b.mul(b.block, 2), isSecond), [&](int64_t i, Value pointer) {
      b.storeAt(pointer, b.fromElements(sums.slice(static_cast<size_t>(i), 4)), chunk);
    });
    Value first = blockOf(tileBegin), last = blockOf(b.add(tileBegin, tile.steps() - 1));
    Value isLast = arrival->arrive(tickets, first, b.add(b.sub(last, first), 1));
    SmallVector<Value> none = {isLast};
    llvm::append_range(none, tile.zeros());
    return b.choose(isLast, none, [&] {
      auto added = b.loop(
          first, b.add(last, 1), b.index(1), tile.zeros(), [&](Value other, ValueRange carried) {
            SmallVector<Value> next(carried);
            Value begins = b.select(b.equal(other, first), b.index(1), b.index(0));
            forParts(b.add(b.mul(other, 2), begins), [&](int64_t i, Value pointer) {
              Value part = b.loadAt(pointer, b.vec(b.getF32Type(), 4), chunk);
              for (int64_t j = 0; j < 4; ++j)
                next[static_cast<size_t>(i + j)] =
                    arith::AddFOp::create(b, next[static_cast<size_t>(i + j)], b.extract(part, j));
            });
            return next;
          });
      added.insert(added.begin(), b.truth(true));
      return added;
    });
  }

  /// Calls `body` with every fourth sum's number and where it and the next three lie in a part:
  /// threads side by side.
  void forParts(Value part, function_ref<void(int64_t, Value)> body) {
    for (int64_t i = 0; i < tile.accumulators(); i += 4)
      body(i, b.pointer(partials, {part, b.add(b.mul(b.thread, 4), i * b.threads)}));
  }

  static constexpr int64_t chunk = 16; ///< bytes of four sums

  GpuBuilder &b;
  ContractTile tile;
  View partials, tickets;
  int64_t segments;
  std::optional<LastArrival> arrival;
  Value each, longer;   ///< steps of a run, and how many runs have one more
  Value begin, end;     ///< of this block's run
  Place reading, ahead; ///< its first step, and the first that is not fetched before the loop
};

} // namespace

Contraction::Contraction(GpuBuilder &b, kernel::ContractOp op) {
  if (op.getGpuTile() && op.getGpuTileAttr().getSegments() > 0)
    lowering = std::make_unique<StreamLowering>(b, op);
  else
    lowering = std::make_unique<TileLowering>(b, op);
}

Contraction::~Contraction() = default;
void Contraction::fetch() { lowering->fetch(); }
void Contraction::emit() { lowering->emit(); }

} // namespace gemma::codegen::cuda
