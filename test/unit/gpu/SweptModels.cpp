#include "test/unit/gpu/SweptModels.h"

#include <algorithm>

namespace gemma::test {

/// 5 blocks of 64 columns, the last one with 8, for a ring of 4; 17
/// groups of rows; a window that ends within a page.
ModelConfig smallModel() {
  ModelConfig config;
  config.vocab = 136;
  config.hidden = 264;
  config.intermediate = 72;
  config.heads = 4;
  config.layerKinds = {LayerKind::Sliding, LayerKind::Global};
  config.sliding = {.kvHeads = 2, .headDim = 32, .window = 40, .rope = {1e4, 32, 32, 16}};
  config.global = {.kvHeads = 1, .headDim = 64, .rope = {1e6, 64, 64, 8}, .valuesAreKeys = true};
  config.rmsEps = 1e-6;
  config.softcap = 30;
  return config;
}

/// The heads of the 12B, or with 4 KV heads in global layers of the 31B.
static ModelConfig withTrueHeads(int64_t globalHeads, int64_t globalKvHeads) {
  ModelConfig config = smallModel();
  config.heads = globalHeads;
  config.sliding = {
      .kvHeads = globalHeads / 2, .headDim = 256, .window = 72, .rope = {1e4, 256, 256, 128}};
  config.global = {
      .kvHeads = globalKvHeads, .headDim = 512, .rope = {1e6, 512, 512, 64}, .valuesAreKeys = true};
  return config;
}

/// Earlier tokens of the sequences, in turn: borders of pages, of tiles of keys, of the window, and
/// beyond the end of a ring.
static constexpr int64_t earlier[] = {0,  1,  14, 15, 16, 17, 38, 39,  40,  41,  47,  48,
                                      62, 63, 64, 65, 79, 80, 81, 127, 128, 129, 303, 400};

Runs raggedRuns(int64_t tokens, int64_t sequences, size_t salt) {
  Runs runs;
  for (int64_t b = 0; b < sequences; ++b) {
    // A share of what is left, growing from one sequence to the next; every one has a token.
    int64_t left = sequences - b, fresh = std::max<int64_t>(1, tokens / left - left / 2);
    if (left == 1)
      fresh = tokens;
    tokens -= fresh;
    runs.push_back({fresh, fresh + earlier[(salt + size_t(b)) % std::size(earlier)]});
  }
  return runs;
}

/// Batches of 1, 15 and 16 at these token counts, then decode's own kernels, for as many sequences
/// as a step can have. `every`: batch at every count.
static std::vector<SweptModel> swept(const ModelConfig &config, bool sharedKeys,
                                     const std::vector<int64_t> &counts, bool every) {
  auto seed = static_cast<uint32_t>(counts.front());
  SweptModel mixed{config, {.context = 1024, .batch = 16, .chunk = 257}, sharedKeys, every, {}};
  for (int64_t tokens : counts)
    for (int64_t sequences : {1, 15, 16}) {
      // Large steps with one of the batches each.
      bool left = tokens > 65 && sequences != std::array<int64_t, 3>{15, 16, 1}[tokens % 3];
      if (sequences > tokens || (left && !every))
        continue;
      mixed.steps.push_back({raggedRuns(tokens, sequences, size_t(seed) * 5), seed});
      ++seed;
    }
  SweptModel decode{config, {.context = 1024, .batch = 257, .chunk = 257}, sharedKeys, every, {}};
  for (int64_t tokens : counts) {
    // Every length in small batches, the shorter ones in large ones.
    size_t lengths = tokens > 65 && !every ? 17 : std::size(earlier);
    Runs runs;
    for (int64_t b = 0; b < tokens; ++b)
      runs.push_back({1, 1 + earlier[(size_t(seed) * 7 + size_t(b)) % lengths]});
    decode.steps.push_back({runs, seed++});
  }
  return {mixed, decode};
}

std::vector<SweptModel> everySize() {
  return swept(smallModel(), /*sharedKeys=*/false,
               {1, 3, 4, 5, 8, 9, 16, 17, 32, 33, 35, 36, 65, 129, 256, 257}, /*every=*/false);
}

std::vector<SweptModel> madeKeys() {
  SweptModel model{smallModel(), {.context = 1024, .batch = 16, .chunk = 257}, true, false, {}};
  uint32_t seed = 100;
  for (auto [tokens, sequences] :
       {std::pair<int64_t, int64_t>{1, 1}, {15, 15}, {9, 1}, {36, 15}, {129, 16}}) {
    model.steps.push_back({raggedRuns(tokens, sequences, seed), seed});
    ++seed;
  }
  return {model};
}

std::vector<SweptModel> trueHeads() {
  LoweredModel::Limits limits = {.context = 1024, .batch = 16, .chunk = 257};
  return {{withTrueHeads(16, 1), limits, true, false, {{{{1, 90}, {1, 17}}, 1}, {{{3, 80}}, 2}}},
          {withTrueHeads(32, 4), limits, true, false, {{{{1, 70}}, 3}, {{{2, 20}}, 4}}}};
}

std::vector<SweptModel> largeTiles() {
  ModelConfig head = smallModel();
  head.layerKinds = {LayerKind::Sliding};
  ModelConfig prefill = head;
  head.vocab = int64_t{132} * 128;
  prefill.hidden = 72;
  prefill.intermediate = int64_t{34} * 64;
  return {{head,
           {.context = 512, .batch = 9, .chunk = 16},
           true,
           false,
           {{{{1, 5}}, 1}, {raggedRuns(9, 9, 2), 2}, {{{7, 7}}, 3}}},
          {prefill, {.context = 512, .batch = 1, .chunk = 384}, true, false, {{{{257, 257}}, 4}}}};
}

std::vector<SweptModel> deepRows() {
  std::vector<SweptModel> models;
  uint32_t seed = 1;
  for (int64_t hidden : {3840, 5376}) {
    ModelConfig config = smallModel();
    config.hidden = hidden;
    SweptModel &model = models.emplace_back(
        SweptModel{config, {.context = 512, .batch = 4, .chunk = 16}, true, false, {}});
    for (const Runs &runs :
         {Runs{{1, 50}}, {{1, 3}, {1, 60}, {1, 20}}, {{1, 5}, {1, 41}, {1, 1}, {1, 16}}})
      model.steps.push_back({runs, seed++});
  }
  return models;
}

std::vector<SweptModel> wideProjections() {
  ModelConfig sliding = withTrueHeads(16, 1), global = sliding;
  sliding.layerKinds = {LayerKind::Sliding};
  sliding.hidden = 512;
  global.layerKinds = {LayerKind::Global};
  global.hidden = 64;
  return {{sliding,
           {.context = 512, .batch = 4, .chunk = 16},
           true,
           false,
           {{{{1, 20}}, 1}, {{{1, 9}, {1, 1}, {1, 30}, {1, 2}}, 2}}},
          {global,
           {.context = 512, .batch = 16, .chunk = 512},
           true,
           false,
           {{raggedRuns(257, 16, 3), 3}}}};
}

std::vector<LongSweep> longSweeps() {
  std::vector<LongSweep> parts;
  for (SweptHeads heads : {SweptHeads::Small, SweptHeads::Of12B, SweptHeads::Of31B})
    for (bool sharedKeys : {false, true})
      for (const std::vector<int64_t> &tokens : {std::vector<int64_t>{1, 3, 4, 5, 8, 9},
                                                 {16, 17, 32, 33, 35, 36},
                                                 {65, 129},
                                                 {256},
                                                 {257}})
        parts.push_back({heads, sharedKeys, tokens});
  return parts;
}

std::vector<SweptModel> modelsOf(const LongSweep &sweep) {
  ModelConfig config = sweep.heads == SweptHeads::Of12B   ? withTrueHeads(16, 1)
                       : sweep.heads == SweptHeads::Of31B ? withTrueHeads(32, 4)
                                                          : smallModel();
  return swept(config, sweep.sharedKeys, sweep.tokens, /*every=*/true);
}

} // namespace gemma::test
