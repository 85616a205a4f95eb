// kernel.attention -> online softmax over tiles of keys on tensor cores (Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022), one block
// = one KV head and one tile of queries of one sequence.
//
// The rows of a block are its (query, head) pairs, padded to a multiple of 16. For each tile of
// keys:
//   1. S = Q·K, pieces of 16 rows by a page of 16 keys dealt out to the warps, to shared memory;
//   2. softmax of each row by a few threads: P in bf16 and the factor for what was summed before;
//   3. O = O·factor + P·V, every warp for all rows and its own columns of the head.
// K and V arrive by asynchronous copies in rings of their own: K of a later tile is on its way
// during 2 and 3, V during 1 and 2. Tiles begin at multiples of their length, so a row's arithmetic
// depends on its own position alone, not on the tile or the batch it is in.
//
// Where the cache stores values alone, a step before 1 makes a tile of keys from the tile of V.
//
// With splits a block has a run of tiles only, and the last block of a sequence and KV head
// combines.
//
// Only pages with a visible key are read. Keys that no row of the block sees have probability 0 and
// zeros for V, whatever their memory holds.
#include "codegen/gpu/AttentionSplits.h"
#include "codegen/gpu/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace gemma::codegen::cuda {

class AttentionLowering : AttentionSplits {
public:
  AttentionLowering(GpuBuilder &b, kernel::AttentionOp op) : AttentionSplits(b, op) {}

  Value findWork() {
    if (!check())
      return b.truth(false);
    findQueries(b.values.lookup(op.getBlock()));
    findKeys();
    firstTile = b.floorDiv(firstKey, tileKeys);
    endTile = b.add(b.floorDiv(lastKey, tileKeys), 1);
    findRun(firstTile);
    return b.both(b.less(b.index(0), queries), b.less(firstTile, endTile));
  }

  void emit() {
    assignThreads();
    assignColumns();
    allocate();
    allocateForSplits();
    if (!b.failed)
      emitRun();
  }

private:
  void assignColumns() {
    mTiles = rows / 16;
    // The columns of a head in pieces of 8, the same number a warp.
    int64_t pieces = lanes / 8;
    nTiles = llvm::divideCeil(pieces, b.warps());
    while (pieces % nTiles != 0)
      ++nTiles;
  }

  void emitRun() {
    for (int64_t s = 0; s < stages; ++s) {
      if (!computedKeys)
        copyTile(b.add(firstTile, s), b.index(s), /*isKeys=*/true);
      copyTile(b.add(firstTile, s), b.index(s), /*isKeys=*/false);
    }
    loadQueries();
    emitLoop();
  }

  //===--- the loop over tiles of keys ---===//

  void emitLoop() {
    Value warpColumns = b.mul(b.warp, nTiles * 8);
    findRow();

    SmallVector<Value> state(static_cast<size_t>(mTiles * nTiles * 4), b.f32(0.0));
    state.append({b.f32(-INFINITY), b.f32(0.0), b.index(0)}); // maximum, sum, slot of the rings
    state = b.loop(firstTile, endTile, b.index(1), state, [&](Value number, ValueRange carried) {
      SmallVector<Value> next(carried.drop_back(3));
      Value maximum = carried[carried.size() - 3], sum = carried[carried.size() - 2];
      Value ringSlot = carried.back();
      Value ahead = b.add(number, stages);
      // Groups of copies that may be on their way: all but the oldest.
      int64_t pending = (computedKeys ? 1 : 2) * stages - 1;
      b.waitCopies(pending);
      b.barrier(); // K is there, or V if keys are made of it; the queries too
      if (computedKeys) {
        computedKeys->emit(valueRing, b.mul(ringSlot, tileKeys), b.mul(number, tileKeys));
        b.barrier();
      }
      emitScores(ringSlot);
      b.barrier(); // all scores are there, and nobody reads K's slot
      if (!computedKeys)
        copyTile(ahead, ringSlot, /*isKeys=*/true);
      emitSoftmax(b.mul(number, tileKeys), maximum, sum);
      if (!computedKeys)
        b.waitCopies(pending);
      b.barrier(); // P, the factors and V are there
      emitOutputs(ringSlot, warpColumns, next);
      b.barrier(); // nobody reads V's slot, P or the scores
      copyTile(ahead, ringSlot, /*isKeys=*/false);
      Value after = b.add(ringSlot, 1);
      next.append({maximum, sum, b.select(b.equal(after, b.index(stages)), b.index(0), after)});
      return next;
    });
    b.waitCopies(0);
    Value maximum = state[state.size() - 3], sum = state[state.size() - 2];
    state.truncate(state.size() - 3);
    if (splits == 1) {
      storeOutputs(sum, warpColumns, state);
      return;
    }
    b.when(isShared(), [&] {
      leaveSums(warpColumns, state);
      combine(maximum, sum);
    });
    b.when(b.negate(isShared()), [&] { storeOutputs(sum, warpColumns, state); });
  }

  /// Scores of pieces of 16 rows by 16 keys, in turn to the warps.
  void emitScores(Value ringSlot) {
    int64_t pages = tileKeys / page, pieces = mTiles * pages;
    for (int64_t first = 0; first < pieces; first += b.warps()) {
      Value piece = b.add(b.warp, first);
      auto emit = [&] {
        Value m = b.floorDiv(piece, pages), p = b.mod(piece, pages);
        emitPiece(b.mul(m, 16), p, ringSlot);
      };
      if (first + b.warps() <= pieces)
        emit();
      else
        b.when(b.less(piece, b.index(pieces)), emit);
    }
  }

  /// Loads 16 keys by 16 lanes from rows that are keys, firstRow.. : lane 16·step is in column
  /// 16·step + shift.
  auto keysAt(const SharedTile &tile, Value firstRow, int64_t shift) {
    // Threads 8.. have the rows' other 8 columns, threads 16.. the next keys.
    Value row = b.add(firstRow, b.add(b.mod(b.lane, 8), b.mul(b.floorDiv(b.lane, 16), 8)));
    Value oddChunk = b.mod(b.floorDiv(b.lane, 8), 2);
    return [=, this, &tile](Value step) {
      Value chunk = b.add(b.add(b.mul(step, 2), shift / 8), oddChunk);
      return b.loadMatrices(tile.pointer(b, row, chunk), 4, /*transposed=*/false);
    };
  }

  void emitPiece(Value firstRow, Value pageOfTile, Value ringSlot) {
    SmallVector<Value> sums(8, b.f32(0.0));
    if (!computedKeys) {
      Value ringPage = b.add(b.mul(ringSlot, tileKeys / page), pageOfTile);
      Value keyRow = b.add(b.mul(ringPage, lanes), b.mod(b.lane, 16));
      Value half = b.floorDiv(b.lane, 16);
      // Stored keys lie with d as row, so they are transposed on the way.
      addScores(firstRow, 0, lanes, sums, [&](Value step) {
        return b.loadMatrices(keyRing.pointer(b, b.add(keyRow, b.mul(step, 16)), half), 4, true);
      });
    } else {
      const kernel::ComputedLanes &computed = computedKeys->lanes;
      const SharedTile &tile = computedKeys->tile;
      Value keyRow = b.mul(pageOfTile, page);
      if (computed.all) {
        addScores(firstRow, 0, lanes, sums, keysAt(tile, keyRow, 0));
      } else {
        // Lanes of each half that are made of the values, then those that are the values'.
        Value valueRow = b.add(b.mul(ringSlot, tileKeys), keyRow);
        int64_t half = computed.half, ofHalf = computed.ofHalf;
        auto stored = keysAt(valueRing, valueRow, 0);
        addScores(firstRow, 0, ofHalf, sums, keysAt(tile, keyRow, 0));
        addScores(firstRow, ofHalf, half, sums, stored);
        addScores(firstRow, half, half + ofHalf, sums, keysAt(tile, keyRow, ofHalf - half));
        addScores(firstRow, half + ofHalf, lanes, sums, stored);
      }
    }
    storeScores(firstRow, pageOfTile, sums);
  }

  /// Adds the products of lanes [first, end) of 16 queries and 16 keys.
  void addScores(Value firstRow, int64_t first, int64_t end, SmallVector<Value> &sums,
                 llvm::function_ref<SmallVector<Value>(Value step)> loadKeys) {
    int64_t steps = (end - first) / 16, unroll = steps % 4 == 0 ? 4 : steps % 2 == 0 ? 2 : 1;
    if (steps == 0)
      return;
    Value row = b.add(firstRow, b.mod(b.lane, 16)), upper = b.floorDiv(b.lane, 16);
    sums = b.loop(
        b.index(first / 16), b.index(end / 16), b.index(unroll), sums,
        [&](Value step, ValueRange carried) {
          SmallVector<Value> next(carried);
          for (int64_t u = 0; u < unroll; ++u) {
            Value d = b.add(step, u);
            auto a = b.loadMatrices(queryTile.pointer(b, row, b.add(b.mul(d, 2), upper)), 4, false);
            auto k = loadKeys(d);
            for (size_t n = 0; n < 2; ++n) {
              auto *c = next.begin() + 4 * n;
              auto sum = b.mma(a, {k[2 * n], k[2 * n + 1]}, ValueRange(ArrayRef<Value>(c, 4)));
              llvm::copy(sum, c);
            }
          }
          return next;
        });
  }

  void storeScores(Value firstRow, Value pageOfTile, ArrayRef<Value> sums) {
    Value laneRow = b.add(firstRow, b.floorDiv(b.lane, 4));
    Value column = b.add(b.mul(pageOfTile, page), b.mul(b.mod(b.lane, 4), 2));
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t half = 0; half < 2; ++half) {
        Value two = b.fromElements({sums[4 * n + 2 * half], sums[4 * n + 2 * half + 1]});
        Value to = b.pointer(scores, {b.add(laneRow, 8 * half), b.add(column, 8 * n)});
        b.storeAt(to, two, 8);
      }
  }

  /// Whether this warp has columns of the head; null if all have.
  Value hasColumns() {
    if (nTiles * b.warps() * 8 == lanes)
      return Value();
    return b.less(b.mul(b.warp, nTiles * 8), b.index(lanes));
  }

  void emitOutputs(Value ringSlot, Value warpColumns, SmallVector<Value> &sums) {
    if (Value active = hasColumns()) {
      sums = b.choose(active, sums, [&] {
        SmallVector<Value> added = sums;
        addOutputs(ringSlot, warpColumns, added);
        return added;
      });
      return;
    }
    addOutputs(ringSlot, warpColumns, sums);
  }

  /// Multiplies sums by the factors of their rows: sum i of a lane is of row lane/4 (+8 from i = 2
  /// on).
  void scaleSums(SmallVector<Value> &sums) {
    Value laneRow = b.floorDiv(b.lane, 4);
    for (int64_t m = 0; m < mTiles; ++m)
      for (int64_t half = 0; half < 2; ++half) {
        Value factor = b.loadScalar(factors, b.add(laneRow, 16 * m + 8 * half), b.getF32Type());
        for (int64_t n = 0; n < nTiles; ++n)
          for (int64_t i = 0; i < 2; ++i) {
            Value &sum = sums[(m * nTiles + n) * 4 + 2 * half + i];
            sum = arith::MulFOp::create(b, sum, factor);
          }
      }
  }

  void addOutputs(Value ringSlot, Value warpColumns, SmallVector<Value> &sums) {
    scaleSums(sums);
    Value laneOf16 = b.mod(b.lane, 16), upper = b.floorDiv(b.lane, 16);
    Value firstChunk = b.floorDiv(warpColumns, 8);
    for (int64_t p = 0; p < tileKeys / page; ++p) {
      SmallVector<SmallVector<Value>> a;
      for (int64_t m = 0; m < mTiles; ++m) {
        Value at = probabilities.pointer(b, b.add(laneOf16, 16 * m), b.add(upper, 2 * p));
        a.push_back(b.loadMatrices(at, 4, false));
      }
      Value keyRow = b.add(b.mul(ringSlot, tileKeys), b.add(laneOf16, p * page));
      for (int64_t n = 0; n < nTiles; n += 2) {
        // Two pieces of 8 columns at a time, or a last single one.
        int64_t count = std::min<int64_t>(2, nTiles - n);
        Value chunk = b.add(firstChunk, n);
        if (count == 2)
          chunk = b.add(chunk, upper);
        Value at = valueRing.pointer(b, keyRow, chunk);
        auto v = b.loadMatrices(at, 2 * count, true);
        for (int64_t m = 0; m < mTiles; ++m)
          for (int64_t j = 0; j < count; ++j) {
            auto *c = sums.begin() + (m * nTiles + n + j) * 4;
            auto sum = b.mma(a[m], {v[2 * j], v[2 * j + 1]}, ValueRange(ArrayRef<Value>(c, 4)));
            llvm::copy(sum, c);
          }
      }
    }
  }

  //===--- results ---===//

  void storeOutputs(Value sum, Value warpColumns, SmallVector<Value> &sums) {
    Value positive = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, sum, b.f32(0.0));
    Value inverse = arith::DivFOp::create(b, b.f32(1.0), b.select(positive, sum, b.f32(1.0)));
    storeFactor(inverse);
    b.barrier();
    scaleSums(sums);
    forPairs(warpColumns, sums,
             [&](Value row, Value column, Value two) { storePair(row, column, two); });
    storeRows();
  }

  /// Calls `body` for every two sums of this thread that lie side by side, with their row and
  /// column.
  void forPairs(Value warpColumns, ArrayRef<Value> sums,
                function_ref<void(Value, Value, Value)> body) {
    auto all = [&] {
      Value laneRow = b.floorDiv(b.lane, 4);
      Value laneColumn = b.add(warpColumns, b.mul(b.mod(b.lane, 4), 2));
      for (int64_t m = 0; m < mTiles; ++m)
        for (int64_t n = 0; n < nTiles; ++n)
          for (int64_t half = 0; half < 2; ++half) {
            const Value *c = sums.data() + (m * nTiles + n) * 4 + 2 * half;
            body(b.add(laneRow, 16 * m + 8 * half), b.add(laneColumn, 8 * n),
                 b.fromElements({c[0], c[1]}));
          }
    };
    if (Value active = hasColumns())
      b.when(active, all);
    else
      all();
  }

  /// Leaves the sums for the last block: 16 bytes a lane where two neighbouring lanes can exchange
  /// pairs, one of them for each of two pieces of 8 columns.
  void leaveSums(Value warpColumns, ArrayRef<Value> sums) {
    if (nTiles % 2 != 0 || headDim % 4 != 0) {
      forPairs(warpColumns, sums,
               [&](Value row, Value column, Value two) { leave(row, column, two); });
      return;
    }
    auto all = [&] {
      Value odd = b.equal(b.mod(b.lane, 2), b.index(1));
      Value laneRow = b.floorDiv(b.lane, 4);
      // Of the second piece in odd lanes; the two lanes' columns begin at the even lane's.
      Value laneColumn = b.add(warpColumns, b.mul(b.floorDiv(b.mod(b.lane, 4), 2), 4));
      laneColumn = b.select(odd, b.add(laneColumn, 8), laneColumn);
      int64_t halves = op.getQueryTile() * group <= 8 ? 1 : 2; // the upper 8 rows are padding
      for (int64_t m = 0; m < mTiles; ++m)
        for (int64_t n = 0; n < nTiles; n += 2)
          for (int64_t half = 0; half < halves; ++half) {
            const Value *even = sums.data() + (m * nTiles + n) * 4 + 2 * half, *next = even + 4;
            SmallVector<Value> kept, received;
            for (int64_t i = 0; i < 2; ++i) {
              kept.push_back(b.select(odd, next[i], even[i]));
              received.push_back(b.shuffleXor(b.select(odd, even[i], next[i]), 1));
            }
            SmallVector<Value> four;
            for (int64_t i = 0; i < 4; ++i)
              four.push_back(i < 2 ? b.select(odd, received[i], kept[i])
                                   : b.select(odd, kept[i - 2], received[i - 2]));
            leave(b.add(laneRow, 16 * m + 8 * half), b.add(laneColumn, 8 * n),
                  b.fromElements(four));
          }
    };
    if (Value active = hasColumns())
      b.when(active, all);
    else
      all();
  }

  Value firstTile;    ///< with a visible key, of this block's run
  int64_t mTiles = 0; ///< pieces of 16 rows
  int64_t nTiles = 0; ///< pieces of 8 columns of the head that a warp has
};

Attention::Attention(GpuBuilder &b, kernel::AttentionOp op)
    : lowering(std::make_unique<AttentionLowering>(b, op)) {}
Attention::~Attention() = default;
Value Attention::findWork() { return lowering->findWork(); }
void Attention::emit() { lowering->emit(); }

} // namespace gemma::codegen::cuda
