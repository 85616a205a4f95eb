// The GPU kernels at the sizes of the published models, executed by the emulated device, against
// host kernels in float64 or float32 on the same random bf16 weights.
#include "CompiledModel.h"

#include "tools/verify/RandomCheckpoint.h"

#include <cstdlib>

using namespace gemma;
using namespace gemma::test;

namespace {

/// A published configuration with one layer of each kind and a small vocabulary.
ModelConfig twoLayers(const char *model) {
  auto config =
      readModelConfig(sourcePath(std::string("test/data/configs/") + model + "/config.json"));
  EXPECT_TRUE(config) << config.error().message;
  config->layerKinds = {LayerKind::Sliding, LayerKind::Global};
  config->vocab = 256;
  return *config;
}

Ids someTokens(int64_t count) {
  Ids ids;
  for (int64_t i = 0; i < count; ++i)
    ids.push_back(int32_t((7 + i * 89 + i / 3) % 256));
  return ids;
}

CompiledModel compiledFor(const char *target, ScalarType dtype, const Checkpoint &checkpoint) {
  compiler::CompileOptions options;
  options.dtype = dtype;
  options.targets = {target};
  options.maxContext = 128;
  options.maxChunk = 64;
  if (options.targets.front() == "host")
    options.isas = {runnableIsas().front()};
  return CompiledModel::load(compiler::compileModel(checkpoint.config(), options), checkpoint);
}

/// Logits of `prompt` tokens as one step, then of `single` tokens one by one.
Tensor logitsOf(CompiledModel &compiled, int64_t prompt, int64_t single) {
  Ids tokens = someTokens(prompt + single);
  auto sequence = compiled.sequence();
  Tensor logits = compiled.prefill(*sequence, Ids(tokens.begin(), tokens.begin() + prompt));
  for (int64_t t = prompt; t < prompt + single; ++t) {
    Tensor one = compiled.prefill(*sequence, {tokens[size_t(t)]});
    logits.data.insert(logits.data.end(), one.data.begin(), one.data.end());
  }
  return logits;
}

/// rms of the logits' differences from those of host kernels in `exact`.
void compare(const ModelConfig &config, ScalarType exact, int64_t prompt, int64_t single,
             double bound) {
  auto checkpoint = verify::makeRandomCheckpoint(config, 5);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  Tensor expected, hostBf16;
  {
    CompiledModel host = compiledFor("host", exact, *checkpoint);
    ASSERT_TRUE(host.context);
    expected = logitsOf(host, prompt, single);
  }
  CompiledModel emulated = compiledFor("emu-sm_80", ScalarType::BF16, *checkpoint);
  ASSERT_TRUE(emulated.context);
  EXPECT_EQ(emulated.model->isa(), "emulated sm_80");
  Tensor logits = logitsOf(emulated, prompt, single);
  ASSERT_EQ(logits.data.size(), expected.data.size());
  double scale = rmsDifference(expected, Tensor({int64_t(expected.data.size())}));
  double rms = rmsDifference(logits, expected);
  testing::Test::RecordProperty("rms", std::to_string(rms));
  std::printf("rms of the logits %.4f, of the error %.4f\n", scale, rms);
  EXPECT_GT(scale, 1); // something was computed
  EXPECT_LE(rms, bound);
}

// Heads of 256 and 512 lanes, 16 on 8 and on 1 KV head, in a narrow model; the window is crossed in
// the prompt and again in decoding.
TEST(EmulatedShapes, TrueHeadsAcrossTheWindow) {
  ModelConfig config = twoLayers("gemma-4-12B");
  config.hidden = 128;
  config.intermediate = 256;
  config.sliding.window = 32;
  ASSERT_EQ(config.sliding.headDim, 256);
  ASSERT_EQ(config.global.headDim, 512);
  ASSERT_EQ(config.heads, 16);
  compare(config, ScalarType::F64, 44, 6, 0.03);
}

// The 12B's true width: decoding one token, and one tile of a prompt.
TEST(EmulatedShapes, TrueWidth) {
  const char *wanted = std::getenv("GEMMA_LONG_TESTS");
  if (!wanted || std::string(wanted) != "1")
    GTEST_SKIP() << "minutes; GEMMA_LONG_TESTS=1 runs it";
  compare(twoLayers("gemma-4-12B"), ScalarType::F32, 16, 1, 0.03);
}

} // namespace
