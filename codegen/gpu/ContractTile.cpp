#include "codegen/gpu/ContractTile.h"

#include "codegen/gpu/EntryKey.h"
#include "codegen/gpu/SharedTile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace gemma::codegen::cuda {

constexpr int64_t blockColumns = 64; ///< of a k-block
constexpr int64_t rowBytes = 128;    ///< of a row of a k-block in shared memory

ContractTile::ContractTile(GpuBuilder &b, kernel::ContractOp op)
    : b(b), op(op), act(b.viewOf(op, op.getAct())), weight(b.viewOf(op, op.getWeight())),
      out(b.viewOf(op, op.getOut())), prepared(op.hasPreparedRows()), pair(op.getPair() ? 2 : 1) {
  if (op.getBest())
    best = b.viewOf(op, op.getBest());
}

//===----------------------------------------------------------------------===//
// What fits
//===----------------------------------------------------------------------===//

bool ContractTile::check() {
  if (!op.getGpuTile()) {
    b.fail(op, "has no gpu_tile");
    return false;
  }
  kernel::MmaAttr tile = op.getGpuTileAttr();
  tileRows = tile.getRows();
  tileTokens = tile.getTokens();
  stageCount = tile.getStages();
  blocksOfStage = tile.getK() / blockColumns;
  depth = prepared ? blockColumns * act.dim(0) : act.dim(1);
  groups = weight.dim(1);
  kBlocks = weight.dim(0);
  Type sum = op.getEpilogue().front().getArgument(0).getType();
  bool floats = act.element().isBF16() || act.element().isF32();
  if (!weight.element().isBF16() || !floats || !sum.isF32() ||
      !(out.element().isBF16() || out.element().isF32())) {
    b.fail(op, "expected bf16 weights, bf16 or f32 activations and outputs and f32 sums");
    return false;
  }
  // Four columns a lane, a row of a tile within a warp.
  if (op.getBest() && (!llvm::isPowerOf2_64(uint64_t(tileRows)) || tileRows > 128)) {
    b.fail(op, "expected tiles of 16, 32, 64 or 128 rows with best, got " + Twine(tileRows));
    return false;
  }
  stepCount = llvm::divideCeil(kBlocks, blocksOfStage);
  return assignWarps();
}

/// Cuts the tile into equal parts, one a warp: as square as possible, since a warp loads
/// mTiles + nTiles / 2 pieces of shared memory for mTiles · nTiles products.
bool ContractTile::assignWarps() {
  int64_t best = INT64_MAX;
  for (int64_t ofRows = 1; ofRows <= b.warps(); ++ofRows) {
    int64_t ofTokens = b.warps() / ofRows;
    if (b.warps() % ofRows || (tileRows / 16) % ofRows || (tileTokens / 8) % ofTokens)
      continue;
    int64_t m = tileRows / 16 / ofRows, n = tileTokens / 8 / ofTokens;
    if (2 * m + n < best) {
      best = 2 * m + n;
      warpsOfRows = ofRows;
      mTiles = m;
      nTiles = n;
    }
  }
  if (best == INT64_MAX)
    b.fail(op, "expected a tile of 16-row by 8-token pieces that " + Twine(b.warps()) +
                   " warps can share equally, got " + Twine(tileRows) + " by " + Twine(tileTokens));
  return best != INT64_MAX;
}

int64_t ContractTile::weightBytes() const { return tileRows * rowBytes; }
int64_t ContractTile::actBytes() const { return prepared ? 0 : tileTokens * rowBytes; }
int64_t ContractTile::blockBytes() const { return weightBytes() + actBytes(); }
int64_t ContractTile::stageBytes() const { return blocksOfStage * blockBytes(); }
int64_t ContractTile::outColumns() const { return tileRows / pair; }
/// 16 bytes between rows keep the scattered stores of an accumulator off each other's banks.
int64_t ContractTile::outRowBytes() const { return outColumns() * out.elementBytes() + chunkBytes; }

void ContractTile::takeShared(bool resultsInRing) {
  int64_t start = b.mark();
  ring = b.shared({stageCount * stageBytes()}, b.getI8Type());
  int64_t end = b.mark();
  if (resultsInRing)
    b.release(start);
  tileOut = b.shared({tileTokens * outRowBytes()}, b.getI8Type());
  b.release(std::max(end, b.mark()));
  tokens = b.extent(op.getExtent());
  Value warpOfRows = b.mod(b.warp, warpsOfRows), warpOfTokens = b.floorDiv(b.warp, warpsOfRows);
  weightRow = b.add(b.mul(warpOfRows, mTiles * 16), b.mod(b.lane, 16));
  tokenRow = b.mul(warpOfTokens, nTiles * 8);
}

int64_t ContractTile::rowTiles() const {
  return static_cast<int64_t>(llvm::divideCeil(8 * groups, tileRows));
}

TileOrigin ContractTile::origin(Value number) {
  int64_t together = op.getGpuTileAttr().getRaster(), ofBand = rowTiles() * together;
  // Bands of `together` tiles of tokens, the last one narrower; in a band row after row.
  Value inBand = b.mod(number, ofBand), before = b.mul(b.floorDiv(number, ofBand), together);
  Value row = inBand, token = before;
  if (together > 1) {
    Value width = b.minimum(b.sub(tokenTiles(), before), b.index(together));
    row = arith::DivUIOp::create(b, inBand, width);
    token = b.add(before, b.sub(inBand, arith::MulIOp::create(b, row, width)));
  }
  return {b.mul(row, tileRows / 8), b.mul(token, tileTokens)};
}

Value ContractTile::tokenTiles() { return b.ceilDiv(tokens, tileTokens); }

Value ContractTile::tilesOfStep() { return b.mul(tokenTiles(), rowTiles()); }

//===----------------------------------------------------------------------===//
// Global memory -> shared memory
//===----------------------------------------------------------------------===//

void ContractTile::copyStep(const TileOrigin &tile, Value step, Value slot) {
  for (int64_t i = 0; i < blocksOfStage; ++i) {
    Value kBlock = b.add(b.mul(step, blocksOfStage), i);
    Value base = b.add(b.mul(slot, stageBytes()), i * blockBytes());
    auto copy = [&] {
      copyWeights(tile, kBlock, base);
      if (!prepared)
        copyActivations(tile, kBlock, b.add(base, weightBytes()));
    };
    if (kBlocks % blocksOfStage == 0)
      copy();
    else
      b.when(b.less(kBlock, b.index(kBlocks)), copy);
  }
}

void ContractTile::copyWeights(const TileOrigin &tile, Value kBlock, Value base) {
  b.forShare(tileRows * rowBytes / chunkBytes, [&](Value chunk) {
    Value group = b.add(tile.group, b.floorDiv(chunk, 64));
    Value bytes = b.index(chunkBytes);
    if (8 * groups % tileRows != 0) {
      // Nothing is read for groups that are not there.
      Value there = b.less(group, b.index(groups));
      bytes = b.select(there, bytes, b.index(0));
      group = b.select(there, group, b.index(0));
    }
    Value row = b.mod(b.floorDiv(chunk, 8), 8), column = b.mul(b.mod(chunk, 8), 8);
    Value from = b.pointer(weight, {kBlock, group, row, column});
    b.copyAsync(b.sharedPointer(ring, b.add(base, b.mul(chunk, chunkBytes))), from, bytes);
  });
}

void ContractTile::copyActivations(const TileOrigin &tile, Value kBlock, Value base) {
  bool aligned = act.element().isBF16() && depth % 8 == 0;
  b.forShare(tileTokens * rowBytes / chunkBytes, [&](Value chunk) {
    Value row = b.floorDiv(chunk, 8), c = b.mod(chunk, 8);
    Value token = b.add(tile.token, row);
    Value column = b.add(b.mul(kBlock, blockColumns), b.mul(c, 8));
    Value there = b.less(token, tokens);
    if (aligned && depth % blockColumns != 0)
      there = b.both(there, b.less(column, b.index(depth)));
    Value place = b.add(b.mul(row, rowBytes), b.mul(b.bitXor(c, b.mod(row, 8)), chunkBytes));
    Value to = b.sharedPointer(ring, b.add(base, place));
    if (aligned) {
      Value bytes = b.select(there, b.index(chunkBytes), b.index(0));
      token = b.select(there, token, b.index(0));
      column = b.select(there, column, b.index(0));
      b.copyAsync(to, b.pointer(act, {token, column}), bytes);
      return;
    }
    b.storeAt(to, loadChunk(token, column, there), chunkBytes);
  });
}

/// Eight activations as bf16 through registers: rows that are not aligned, or f32.
Value ContractTile::loadChunk(Value token, Value column, Value there) {
  Type bf16 = b.getBF16Type();
  Value zero = b.constant(b.vec(bf16, 8), 0.0);
  if (act.element().isF32() && depth % 8 == 0) {
    Value inside =
        depth % blockColumns == 0 ? there : b.both(there, b.less(column, b.index(depth)));
    return b
        .choose(inside, zero,
                [&] {
                  Value f32 = b.loadVector(act, {token, column}, 8, b.getF32Type(), chunkBytes);
                  return SmallVector<Value>{b.round(f32, bf16)};
                })
        .front();
  }
  SmallVector<Value> elements;
  for (int64_t i = 0; i < 8; ++i) {
    Value at = b.add(column, i);
    Value inside = b.both(there, b.less(at, b.index(depth)));
    Value element = b.choose(inside, b.f32(0.0), [&] {
                       return SmallVector<Value>{b.loadScalar(act, {token, at}, b.getF32Type())};
                     }).front();
    elements.push_back(b.round(element, bf16));
  }
  return b.fromElements(elements);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

SmallVector<Value> ContractTile::zeros() {
  return SmallVector<Value>(static_cast<size_t>(accumulators()), b.f32(0.0));
}

void ContractTile::addStep(Value step, Value slot, SmallVector<Value> &sums) {
  for (int64_t i = 0; i < blocksOfStage; ++i) {
    Value base = b.add(b.mul(slot, stageBytes()), i * blockBytes());
    Value kBlock = b.add(b.mul(step, blocksOfStage), i);
    if (kBlocks % blocksOfStage == 0) {
      addBlock(kBlock, base, sums);
      continue;
    }
    sums = b.choose(b.less(kBlock, b.index(kBlocks)), sums, [&] {
      SmallVector<Value> added = sums;
      addBlock(kBlock, base, added);
      return added;
    });
  }
}

/// The byte of a 16-byte chunk of a row of 128 bytes, of a part that begins at `base`.
Value ContractTile::place(Value base, Value row, Value chunk) {
  return b.add(base,
               b.add(b.mul(row, rowBytes), b.mul(b.bitXor(chunk, b.mod(row, 8)), chunkBytes)));
}

/// Registers of 8 tokens for chunks `chunk` to `chunk` + 3 of a k-block of prepared rows. Tokens
/// that the step does not have are the last one again: their sums are not stored.
SmallVector<Value> ContractTile::loadPrepared(Value kBlock, int64_t chunk) {
  Value row = b.minimum(b.mod(b.lane, 8), b.sub(tokens, b.index(1)));
  Value base = b.mul(kBlock, act.dim(1) * rowBytes);
  Value at = place(base, row, b.add(b.floorDiv(b.lane, 8), chunk));
  return b.loadMatrices(b.sharedPointer(act, at), 4, /*transposed=*/false);
}

/// 64 columns: four steps of 16.
void ContractTile::addBlock(Value kBlock, Value base, SmallVector<Value> &sums) {
  Value actBase = b.add(base, weightBytes());
  Value laneOf8 = b.mod(b.lane, 8), upper = b.floorDiv(b.lane, 16);
  Value oddChunk = b.mod(b.floorDiv(b.lane, 8), 2);
  SmallVector<Value> lastTokens; // of a last single n-tile: registers of two k-steps
  for (int64_t kk = 0; kk < blockColumns / 16; ++kk) {
    SmallVector<SmallVector<Value>> a, tokensOf;
    for (int64_t m = 0; m < mTiles; ++m) {
      Value row = b.add(weightRow, 16 * m);
      Value at = place(base, row, b.add(upper, 2 * kk));
      a.push_back(b.loadMatrices(b.sharedPointer(ring, at), 4, /*transposed=*/false));
    }
    // Two n-tiles of 8 tokens at a time; a single one together with its next k-step.
    for (int64_t n = 0; n + 1 < nTiles; n += 2) {
      Value row = b.add(b.add(tokenRow, 8 * n), b.add(laneOf8, b.mul(upper, 8)));
      Value at = place(actBase, row, b.add(oddChunk, 2 * kk));
      auto four = b.loadMatrices(b.sharedPointer(ring, at), 4, /*transposed=*/false);
      tokensOf.push_back({four[0], four[1]});
      tokensOf.push_back({four[2], four[3]});
    }
    if (nTiles % 2) {
      if (kk % 2 == 0 && prepared) {
        lastTokens = loadPrepared(kBlock, 2 * kk);
      } else if (kk % 2 == 0) {
        Value row = b.add(b.add(tokenRow, 8 * (nTiles - 1)), laneOf8);
        Value at = place(actBase, row, b.add(b.floorDiv(b.lane, 8), 2 * kk));
        lastTokens = b.loadMatrices(b.sharedPointer(ring, at), 4, /*transposed=*/false);
      }
      size_t first = kk % 2 ? 2 : 0;
      tokensOf.push_back({lastTokens[first], lastTokens[first + 1]});
    }
    for (int64_t m = 0; m < mTiles; ++m)
      for (int64_t n = 0; n < nTiles; ++n) {
        auto *c = sums.begin() + (m * nTiles + n) * 4;
        SmallVector<Value> sum = b.mma(a[m], tokensOf[n], ValueRange(ArrayRef<Value>(c, 4)));
        llvm::copy(sum, c);
      }
  }
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void ContractTile::store(const TileOrigin &tile, ArrayRef<Value> sums) {
  // Accumulator i of a lane: row lane/4 (+8 from i = 2 on), token 2·(lane mod 4) + i mod 2.
  Value warpOfRows = b.mod(b.warp, warpsOfRows), warpOfTokens = b.floorDiv(b.warp, warpsOfRows);
  Value laneRow = b.floorDiv(b.lane, 4), laneToken = b.mul(b.mod(b.lane, 4), 2);
  Block &epilogue = op.getEpilogue().front();
  for (int64_t m = 0; m < mTiles; ++m)
    for (int64_t n = 0; n < nTiles; ++n) {
      const Value *c = sums.data() + (m * nTiles + n) * 4;
      Value token = b.add(b.mul(warpOfTokens, nTiles * 8), b.add(laneToken, 8 * n));
      for (int64_t i = 0; i < 4; ++i) {
        if (pair == 2 && i >= 2)
          break;
        // Rows g and g + 8 of 16 are gate and up of the same column.
        SmallVector<Value> arguments = {c[i]};
        if (pair == 2)
          arguments.push_back(c[i + 2]);
        Value result = b.inlineScalars(epilogue, arguments).front();
        Value column = b.add(b.mul(warpOfRows, mTiles * 16 / pair),
                             b.add(laneRow, 16 / pair * m + 8 * (i / 2)));
        Value at =
            b.add(b.mul(b.add(token, i % 2), outRowBytes()), b.mul(column, out.elementBytes()));
        b.storeAt(b.sharedPointer(tileOut, at), b.round(result, out.element()), out.elementBytes());
      }
    }
  b.barrier();
  storeRows(tile);
  if (op.getBest())
    storeBest(tile);
}

/// Shared memory -> out: 16 bytes at a time where out's rows begin at multiples of that.
void ContractTile::storeRows(const TileOrigin &tile) {
  int64_t width = chunkBytes / out.elementBytes(), columns = out.dim(1);
  while (columns % width != 0 || outColumns() % width != 0)
    width /= 2;
  int64_t chunksOfRow = outColumns() / width, bytes = width * out.elementBytes();
  Value firstColumn = b.mul(tile.group, 8 / pair);
  bool ragged = columns % outColumns() != 0;
  // A loop: unrolled it would keep an address for every chunk.
  b.loop(b.thread, b.index(tileTokens * chunksOfRow), b.index(b.threads), [&](Value chunk) {
    Value row = b.floorDiv(chunk, chunksOfRow);
    Value inRow = b.mul(b.mod(chunk, chunksOfRow), width);
    Value token = b.add(tile.token, row), column = b.add(firstColumn, inRow);
    Value inside = b.less(token, tokens);
    if (ragged)
      inside = b.both(inside, b.less(column, b.index(columns)));
    b.when(inside, [&] {
      Value at = b.add(b.mul(row, outRowBytes()), b.mul(inRow, out.elementBytes()));
      Value values = b.loadAt(b.sharedPointer(tileOut, at), b.vec(out.element(), width), bytes);
      b.storeAt(b.pointer(out, {token, column}), values, bytes);
    });
  });
}

/// Shared memory -> best: neighbouring lanes find the largest of a row of the tile and leave its
/// key behind the row, from where a thread a row stores it.
void ContractTile::storeBest(const TileOrigin &tile) {
  int64_t lanes = tileRows / 4, columns = out.dim(1);
  int64_t keyAt = tileRows * out.elementBytes();
  Value firstColumn = b.mul(tile.group, 8);
  // Whole warps share: a tile has 8 tokens or a multiple, so 32 lanes or a multiple.
  b.forShare(tileTokens * lanes, [&](Value share) {
    Value row = b.mul(b.floorDiv(share, lanes), outRowBytes());
    Value inRow = b.mul(b.mod(share, lanes), 4);
    Value at = b.add(row, b.mul(inRow, out.elementBytes()));
    Value values = b.loadAt(b.sharedPointer(tileOut, at), b.vec(out.element(), 4), chunkBytes);
    Value none = b.integer(b.getI64Type(), 0), largest = none;
    for (int64_t i = 0; i < 4; ++i) {
      Value column = b.add(firstColumn, b.add(inRow, i));
      Value key = entryKey(b, b.extract(values, i), column);
      if (columns % tileRows != 0)
        key = b.select(b.less(column, b.index(columns)), key, none);
      largest = arith::MaxUIOp::create(b, largest, key);
    }
    largest = largestKeyOf(b, largest, lanes);
    b.when(b.equal(b.mod(share, lanes), b.index(0)),
           [&] { b.storeAt(b.sharedPointer(tileOut, b.add(row, keyAt)), largest, 8); });
  });
  b.barrier();
  b.forShare(tileTokens, [&](Value row) {
    Value token = b.add(tile.token, row);
    b.when(b.less(token, tokens), [&] {
      Value at = b.add(b.mul(row, outRowBytes()), keyAt);
      Value key = b.loadAt(b.sharedPointer(tileOut, at), b.getI64Type(), 8);
      Value number = b.floorDiv(tile.group, tileRows / 8);
      b.storeAt(b.pointer(best, {token, number, b.index(0)}), key, 8);
    });
  });
}

} // namespace gemma::codegen::cuda
