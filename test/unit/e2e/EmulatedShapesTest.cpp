// The GPU kernels at the sizes of the published models, executed by the emulated device, against
// host kernels in float64 or float32 on the same random bf16 weights.
#include "CompiledModel.h"
#include "test/unit/EmulatedCases.h"
#include "test/unit/LongTests.h"

#include "tools/verify/RandomCheckpoint.h"

using namespace gemma;
using namespace gemma::test;

namespace {

Ids someTokens(int64_t count) {
  Ids ids;
  for (int64_t i = 0; i < count; ++i)
    ids.push_back(int32_t((7 + i * 89 + i / 3) % 256));
  return ids;
}

CompiledModel compiledFor(const char *target, ScalarType dtype, const EmulatedCase &emulated,
                          const Checkpoint &checkpoint) {
  compiler::CompileOptions options;
  options.dtype = dtype;
  options.targets = {target};
  options.maxContext = emulated.context;
  options.maxChunk = emulated.chunk;
  if (options.targets.front() == "host")
    options.isas = {runnableIsas().front()};
  return CompiledModel::load(compiler::compileModel(checkpoint.config(), options), checkpoint);
}

/// Logits of the prompt as one step, then of the tokens one by one.
Tensor logitsOf(CompiledModel &compiled, const EmulatedCase &emulated) {
  int64_t prompt = emulated.prompt, single = emulated.single;
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
void compare(const EmulatedCase &emulatedCase, ScalarType exact, double bound) {
  auto checkpoint = verify::makeRandomCheckpoint(emulatedCase.config, 5);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  Tensor expected, hostBf16;
  {
    CompiledModel host = compiledFor("host", exact, emulatedCase, *checkpoint);
    ASSERT_TRUE(host.context);
    expected = logitsOf(host, emulatedCase);
  }
  CompiledModel emulated = compiledFor("emu-sm_80", ScalarType::BF16, emulatedCase, *checkpoint);
  ASSERT_TRUE(emulated.context);
  EXPECT_EQ(emulated.model->isa(), "emulated sm_80");
  Tensor logits = logitsOf(emulated, emulatedCase);
  ASSERT_EQ(logits.data.size(), expected.data.size());
  double scale = rmsDifference(expected, Tensor({int64_t(expected.data.size())}));
  double rms = rmsDifference(logits, expected);
  testing::Test::RecordProperty("rms", std::to_string(rms));
  std::printf("rms of the logits %.4f, of the error %.4f\n", scale, rms);
  EXPECT_GT(scale, 1); // something was computed
  EXPECT_LE(rms, bound);
}

TEST(EmulatedShapes, TrueHeadsAcrossTheWindow) {
  EmulatedCase emulated = trueHeadsCase();
  ASSERT_EQ(emulated.config.sliding.headDim, 256);
  ASSERT_EQ(emulated.config.global.headDim, 512);
  ASSERT_EQ(emulated.config.heads, 16);
  compare(emulated, ScalarType::F64, 0.03);
}

TEST(EmulatedShapes, TrueWidth) {
  if (!wantsLongTests())
    GTEST_SKIP() << "minutes; GEMMA_LONG_TESTS=1 runs it";
  compare(trueWidthCase(), ScalarType::F32, 0.03);
}

} // namespace
