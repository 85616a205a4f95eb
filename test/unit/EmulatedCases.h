// Models at sizes of the published ones that the emulated device runs whole; ExecutedKernels takes
// from here what is executed.
#pragma once

#include "TestFiles.h"

#include "runtime/checkpoint/Checkpoint.h"

#include <gtest/gtest.h>

namespace gemma::test {

/// One sequence: a step of `prompt` tokens, then of one token each.
struct EmulatedCase {
  ModelConfig config;
  int64_t prompt = 0, single = 0;
  int64_t context = 128, chunk = 64;
};

/// A published configuration with one layer of each kind and a small vocabulary.
inline ModelConfig twoLayers(const char *model) {
  auto config =
      readModelConfig(sourcePath(std::string("test/data/configs/") + model + "/config.json"));
  EXPECT_TRUE(config) << config.error().message;
  config->layerKinds = {LayerKind::Sliding, LayerKind::Global};
  config->vocab = 256;
  return *config;
}

/// Heads of 256 and 512 lanes, 16 on 8 and on 1 KV head, in a narrow model; the window is crossed
/// in the prompt and again in decoding.
inline EmulatedCase trueHeadsCase() {
  ModelConfig config = twoLayers("gemma-4-12B");
  config.hidden = 128;
  config.intermediate = 256;
  config.sliding.window = 32;
  return {config, 44, 6};
}

/// The 12B's true width: decoding one token, and one tile of a prompt.
inline EmulatedCase trueWidthCase() { return {twoLayers("gemma-4-12B"), 16, 1}; }

} // namespace gemma::test
