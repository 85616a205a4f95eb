// The models and steps that GpuSweep runs kernel by kernel on the emulated device: what there is to
// execute, apart from executing it.
#pragma once

#include "test/unit/gpu/LoweredModel.h"

namespace gemma::test {

struct SweptStep {
  Runs runs;
  uint32_t seed = 0;
};

struct SweptModel {
  ModelConfig config;
  LoweredModel::Limits limits;
  bool sharedKeys = false;
  bool every = false; ///< in every order and mode
  std::vector<SweptStep> steps;
};

/// Sizes that no tile divides.
ModelConfig smallModel();

/// `tokens` tokens in `sequences` sequences of different sizes.
Runs raggedRuns(int64_t tokens, int64_t sequences, size_t salt);

// Of every test run.
std::vector<SweptModel> everySize();
std::vector<SweptModel> madeKeys();
/// The heads of the 12B and of the 31B.
std::vector<SweptModel> trueHeads();
/// Projections of so many rows that large tiles are the best for them, a head whose whole tiles
/// fill the device.
std::vector<SweptModel> largeTiles();
/// Rows as long as those of the 12B and of the 31B.
std::vector<SweptModel> deepRows();
/// Projections with as many rows as qkv of the 12B's sliding and global layers.
std::vector<SweptModel> wideProjections();

/// Heads of a sweep: smallModel's, those of the 12B, those of the 31B.
enum class SweptHeads { Small, Of12B, Of31B };

/// A part of the full product: heads, stored and computed keys, every batch, order and mode.
struct LongSweep {
  SweptHeads heads = SweptHeads::Small;
  bool sharedKeys = false;
  std::vector<int64_t> tokens;
};
std::vector<LongSweep> longSweeps();
std::vector<SweptModel> modelsOf(const LongSweep &sweep);

} // namespace gemma::test
