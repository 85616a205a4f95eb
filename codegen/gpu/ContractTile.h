// One tile of a kernel.contract: what of it lies where, its copies to shared memory, its products
// and how its results are stored.
//
// Steps of `k` columns of weight and activations travel through a ring in shared memory, copied
// asynchronously 16 bytes at a time; warps read them with ldmatrix and multiply with mma.sync
// m16n8k16, rows of the weight as M and tokens as N. Rows of shared memory are 128 bytes (64
// columns) whose eight 16-byte chunks are exclusive-or'ed with the row's number, so that ldmatrix
// has no bank conflicts; the weight is stored that way already. Activations that this block has
// prepared in shared memory stay where they are.
//
// Tokens and rows beyond the end are zero in shared memory (of prepared tokens the last one again)
// and not stored. The results go through
// shared memory, so that they are stored 16 bytes at a time.
#pragma once

#include "codegen/gpu/GpuBuilder.h"

namespace gemma::codegen::cuda {

/// The first group of 8 rows of the weight and the first token of a tile, i32.
struct TileOrigin {
  mlir::Value group, token;
};

class ContractTile {
public:
  ContractTile(GpuBuilder &b, kernel::ContractOp op);

  /// Reports what cannot be lowered; everything else is for tiles that can.
  bool check();
  /// Shared memory: the ring, and the results beside it or in its place.
  void takeShared(bool resultsInRing);

  /// Tile `number` (i32), one of the step's: `raster` tiles of tokens of the same rows follow each
  /// other.
  TileOrigin origin(mlir::Value number);
  /// Tiles of the step's tokens, i32.
  mlir::Value tilesOfStep();

  /// Copies a step to a slot of the ring; k-blocks beyond the end are left out.
  void copyStep(const TileOrigin &tile, mlir::Value step, mlir::Value slot);
  /// This thread's part of a tile of zeros.
  llvm::SmallVector<mlir::Value> zeros();
  /// Adds the products of a step. Every output has one accumulator that takes the k in ascending
  /// order, whatever the tile.
  void addStep(mlir::Value step, mlir::Value slot, llvm::SmallVector<mlir::Value> &sums);
  /// Applies the epilogue and stores the tile. Contains a barrier.
  void store(const TileOrigin &tile, llvm::ArrayRef<mlir::Value> sums);

  int64_t stages() const { return stageCount; }
  int64_t steps() const { return stepCount; } ///< of a tile
  /// Sums of a thread.
  int64_t accumulators() const { return mTiles * nTiles * 4; }

private:
  using Value = mlir::Value;

  bool assignWarps();
  int64_t rowTiles() const;
  Value tokenTiles();          ///< of the step
  int64_t weightBytes() const; ///< of one k-block
  int64_t actBytes() const;    ///< none if they are prepared
  int64_t blockBytes() const;
  int64_t stageBytes() const;
  int64_t outColumns() const;
  int64_t outRowBytes() const;
  void copyWeights(const TileOrigin &tile, Value kBlock, Value base);
  void copyActivations(const TileOrigin &tile, Value kBlock, Value base);
  Value loadChunk(Value token, Value column, Value there);
  Value place(Value base, Value row, Value chunk);
  void addBlock(Value kBlock, Value base, llvm::SmallVector<Value> &sums);
  llvm::SmallVector<Value> loadPrepared(Value kBlock, int64_t chunk);
  void storeRows(const TileOrigin &tile);
  void storeBest(const TileOrigin &tile);

  GpuBuilder &b;
  kernel::ContractOp op;
  View act, weight, out, best;
  bool prepared; ///< whether activations are in shared memory already
  int64_t pair;  ///< weight rows of an output
  int64_t tileRows = 0, tileTokens = 0, stageCount = 0, blocksOfStage = 0;
  int64_t depth = 0, groups = 0, kBlocks = 0, stepCount = 0;
  int64_t warpsOfRows = 0, mTiles = 0, nTiles = 0; ///< tiles of 16 rows and 8 tokens of a warp
  View ring, tileOut;
  Value tokens;              ///< of the step
  Value weightRow, tokenRow; ///< where in this warp's part ldmatrix finds its row
};

} // namespace gemma::codegen::cuda
