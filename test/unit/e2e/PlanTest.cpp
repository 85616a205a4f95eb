// What the compiler promises about programs without running them.
#include "CompiledModel.h"

#include "runtime/engine/Inspect.h"

#include <nlohmann/json.hpp>

#include <set>

using namespace gemma;
using namespace gemma::test;

namespace {

ModelConfig publishedConfig(const std::string &name) {
  auto config = readModelConfig(sourcePath("test/data/configs/" + name + "/config.json"));
  EXPECT_TRUE(config) << config.error().message;
  return *config;
}

std::set<std::string> kernelHashes(const Program &program) {
  std::set<std::string> hashes;
  for (const KernelPlan &kernel : program.kernels)
    hashes.insert(kernel.name + " " + kernel.hash);
  return hashes;
}

TEST(CompiledPlan, KernelsDoNotDependOnTheNumberOfLayers) {
  ModelConfig config = publishedConfig("gemma-4-12B");
  auto kinds = [&](size_t layers) {
    config.layerKinds.clear();
    for (size_t i = 0; i < layers; ++i)
      config.layerKinds.push_back(i % 6 == 5 ? LayerKind::Global : LayerKind::Sliding);
  };
  kinds(12);
  auto few = compiler::planModel(config, {.maxBatch = 16});
  kinds(60);
  auto many = compiler::planModel(config, {.maxBatch = 16});
  ASSERT_TRUE(few && many);
  EXPECT_EQ(kernelHashes(*few), kernelHashes(*many));
  EXPECT_LT(few->kernels.size(), 60u);
}

TEST(CompiledPlan, FusedDecodeHasFiveLaunchesALayer) {
  for (const char *name : {"gemma-4-12B", "gemma-4-31B"}) {
    ModelConfig config = publishedConfig(name);
    auto program = compiler::planModel(config, {});
    ASSERT_TRUE(program) << program.error().message;
    ASSERT_EQ(program->variants.front().name, "decode_few");
    // and the embedding, the head and its largest logits
    EXPECT_EQ(program->variants.front().launches.size(), size_t(5 * config.layers() + 3)) << name;
  }
}

TEST(CompiledPlan, IsWhatTheArtifactSaysAndTheRuntimeTakes) {
  for (const char *name : {"examples/kjv-mini", "narrow-12b", "narrow-31b"}) {
    auto checkpoint = Checkpoint::open(ReferenceData::folder(name));
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    for (ScalarType dtype : {ScalarType::F64, ScalarType::BF16}) {
      SCOPED_TRACE(std::string(name) + (dtype == ScalarType::F64 ? " f64" : " bf16"));
      compiler::CompileOptions options{
          .dtype = dtype, .maxContext = 64, .maxBatch = 2, .maxChunk = 32, .isas = {"baseline"}};
      auto planned = compiler::planModel(checkpoint->config(), options);
      ASSERT_TRUE(planned) << planned.error().message;
      auto artifact = compiler::compileCheckpoint(*checkpoint, options);
      ASSERT_TRUE(artifact) << artifact.error().message;
      EXPECT_TRUE(*planned == artifact->program);

      auto plan = planMemory(*planned, {.threads = 2});
      ASSERT_TRUE(plan) << plan.error().message;
      EXPECT_GT(plan->scratch, 0u);
      nlohmann::json inspected = inspectJson(*artifact)["memory"];
      EXPECT_EQ(2 * inspected["scratch"].get<uint64_t>(), plan->scratch);
      EXPECT_EQ(inspected["total"].get<uint64_t>(), plan->total() - plan->scratch / 2);

      auto model = Model::load(std::move(*artifact), *checkpoint, {});
      ASSERT_TRUE(model) << model.error().message;
      auto context = Context::create(*model, {.threads = 2});
      ASSERT_TRUE(context) << context.error().message;
      EXPECT_EQ((*context)->allocatedBytes(), plan->contextBytes());
    }
  }
}

/// The first variant whose conditions hold at these sizes.
std::string chosen(const Program &program, StepSizes sizes) {
  for (const Variant &variant : program.variants) {
    bool all = true;
    for (const SizeCondition &condition : variant.conditions)
      all &= condition.holds(sizes);
    if (all)
      return variant.name;
  }
  return "";
}

TEST(CompiledPlan, VariantsFollowTheSizes) {
  auto program = compiler::planModel(publishedConfig("gemma-4-12B"), {.maxBatch = 64});
  ASSERT_TRUE(program);
  EXPECT_EQ(chosen(*program, {1, 1, 1, 100, 1}), "decode_few");
  EXPECT_EQ(chosen(*program, {8, 8, 1, 100, 8}), "decode_few");
  EXPECT_EQ(chosen(*program, {9, 9, 1, 100, 9}), "decode_batch");
  EXPECT_EQ(chosen(*program, {2, 1, 2, 100, 1}), "prefill");
  EXPECT_EQ(chosen(*program, {512, 1, 512, 512, 0}), "prefill");
}

TEST(CompiledPlan, CachesTakeWhatTheSpecSays) {
  // Rings of the window itself (chunk slack on top; on CUDA devices the 65 pages that a window of
  // 1024 may lie in), and V alone a token, whose K follows: 320 MiB
  // and 8 KiB for the 12B, 800 MiB and 40 KiB for the 31B. Twice the token where K is stored too.
  struct Expected {
    const char *name;
    uint64_t rings, token;
  };
  for (auto [name, rings, token] :
       {Expected{"gemma-4-12B", 320ull << 20, 8 << 10}, {"gemma-4-31B", 800ull << 20, 40 << 10}})
    for (auto [target, sharing] :
         {std::pair{"host", true}, {"host", false}, {"sm_80", true}, {"sm_80", false}}) {
      SCOPED_TRACE(std::string(name) + " for " + target);
      auto program = compiler::planModel(publishedConfig(name), {.dtype = ScalarType::BF16,
                                                                 .maxContext = 262144,
                                                                 .maxChunk = 1,
                                                                 .kvSharing = sharing,
                                                                 .targets = {target}});
      ASSERT_TRUE(program) << program.error().message;
      for (int64_t context : {4096, 32768, 262144}) {
        auto plan = planMemory(*program, {.context = context});
        ASSERT_TRUE(plan) << plan.error().message;
        uint64_t position = sharing ? token : 2 * token;
        EXPECT_EQ(plan->slidingCache, rings / 64 * (target == std::string("host") ? 64 : 65))
            << name;
        EXPECT_EQ(plan->globalCache, uint64_t(context) * position) << name << " " << context;
        EXPECT_EQ(plan->globalPositionBytes, position) << name;
      }
    }
}

TEST(CompiledPlan, CachesFollowTheirType) {
  // Of the 12B's 8 global layers a position has 512 values; codes have 4 bytes of scale beside
  // them.
  for (auto [type, position] : {std::pair{ScalarType::F32, 8 * 512 * 4},
                                {ScalarType::BF16, 8 * 512 * 2},
                                {ScalarType::I8, 8 * (512 + 4)}}) {
    SCOPED_TRACE(std::string(name(type)));
    auto program = compiler::planModel(
        publishedConfig("gemma-4-12B"),
        {.dtype = ScalarType::BF16, .kvType = type, .maxContext = 32768, .maxChunk = 1});
    ASSERT_TRUE(program) << program.error().message;
    EXPECT_EQ(program->cacheType, type);
    auto plan = planMemory(*program, {});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->globalPositionBytes, uint64_t(position));
    EXPECT_EQ(plan->globalCache, uint64_t(position) * 32768);
    // 40 sliding layers with keys and values of 8 heads of 256.
    uint64_t row = type == ScalarType::I8 ? 256 + 4 : 256 * byteWidth(type);
    EXPECT_EQ(plan->slidingCache, uint64_t{40} * 1024 * 2 * 8 * row);
  }
}

TEST(CompiledPlan, SharingIsPartOfTheProgram) {
  ModelConfig config = publishedConfig("gemma-4-12B");
  auto shared = compiler::planModel(config, {}),
       stored = compiler::planModel(config, {.kvSharing = false}),
       unfused = compiler::planModel(config, {.fusion = false});
  ASSERT_TRUE(shared && stored && unfused);
  EXPECT_FALSE(*shared == *stored);
  auto values = [](const Program &program) {
    return std::ranges::count(program.caches, false, &CachePlan::keys);
  };
  EXPECT_EQ(values(*shared), 8);
  EXPECT_EQ(values(*stored), 0);
  // Unfused, keys are nodes with launches and outputs of their own.
  EXPECT_EQ(values(*unfused), 0);
}

TEST(CompiledPlan, IdentityDependsOnTheModelAlone) {
  // The same text model, stated in full and in short.
  auto artifact = [&](const char *name) { return compiler::planModel(publishedConfig(name), {}); };
  auto a = artifact("gemma-4-12B"), b = artifact("gemma-4-12B-published");
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(*a == *b);
}

TEST(CompiledPlan, OptionsOutOfRangeAreNamed) {
  ModelConfig config = publishedConfig("gemma-4-12B");
  auto expectUsage = [&](const compiler::CompileOptions &options, const std::string &what) {
    auto program = compiler::planModel(config, options);
    ASSERT_FALSE(program);
    EXPECT_EQ(program.error().kind, ErrorKind::Usage);
    EXPECT_NE(program.error().message.find(what), std::string::npos) << program.error().message;
  };
  expectUsage({.maxContext = 262145}, "max-context");
  expectUsage({.maxBatch = 257}, "max-batch");
  expectUsage({.maxChunk = 0}, "max-chunk");
  expectUsage({.dtype = ScalarType::F16}, "dtype");
}

} // namespace
