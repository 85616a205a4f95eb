#include "test/unit/emu/EmuHarness.h"

#include "runtime/device/emu/EmuExecutor.h"

namespace gemma::emu::test {
namespace {

class VectorAdd : public ::testing::Test {
protected:
  Expected<LaunchReport> run(uint32_t elements, uint32_t blocks, LaunchOptions options = {}) {
    const Module &module = moduleOf(readPtx("vector-add.ptx"));
    ParamBuilder params;
    params.add(a.data).add(b.data).add(y.data).add(elements);
    return launch(module, "vector_add", {blocks, 1, 1}, {128, 1, 1}, 0, params.bytes(), memory,
                  pool(), options);
  }
  void SetUp() override {
    for (size_t i = 0; i < count; ++i) {
      a[i] = float(i) * 0.5f;
      b[i] = 1000.0f - float(i);
    }
  }
  static constexpr size_t count = 1000;
  GlobalMemory memory;
  Buffer<float> a{memory, count, "a", true}, b{memory, count, "b", true}, y{memory, count, "y"};
};

TEST_F(VectorAdd, AddsInEveryOrder) {
  for (const Mode &mode : allModes()) {
    std::fill(y.data, y.data + count, -1.0f);
    LaunchOptions options;
    options.order = mode.order;
    options.seed = mode.seed;
    Expected<LaunchReport> report = run(count, 8, options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->messages(), "");
    EXPECT_TRUE(report->completed);
    EXPECT_EQ(report->counters.blocks, 8u);
    for (size_t i = 0; i < count; ++i)
      ASSERT_EQ(y[i], a[i] + b[i]) << i;
  }
}

TEST_F(VectorAdd, NamesAStoreBeyondTheAllocation) {
  LaunchOptions options;
  options.node = "layers[3].mlp_residual";
  Expected<LaunchReport> report = run(count + 1, 8, options);
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->completed);
  ASSERT_EQ(report->findings.size(), 1u);
  const Finding &finding = report->findings[0];
  EXPECT_EQ(finding.kind, FindingKind::OutOfBounds);
  EXPECT_EQ(finding.kernel, "vector_add");
  EXPECT_EQ(finding.node, "layers[3].mlp_residual");
  EXPECT_EQ(finding.line, 35u);
  EXPECT_NE(finding.message().find("ld.global.nc.b32"), std::string::npos) << finding.message();
  EXPECT_NE(finding.message().find("in no allocation; 0 bytes past the end of a"),
            std::string::npos)
      << finding.message();
}

TEST_F(VectorAdd, RefusesAWrongRequest) {
  const Module &module = moduleOf(readPtx("vector-add.ptx"));
  std::vector<std::byte> params(28);
  auto attempt = [&](std::string_view name, uint32_t threads, size_t bytes, uint32_t shared) {
    Expected<LaunchReport> report = launch(module, name, {1, 1, 1}, {threads, 1, 1}, shared,
                                           std::span(params).first(bytes), memory, pool());
    return report.ok() ? std::string() : report.error().message;
  };
  EXPECT_EQ(attempt("nothing", 128, 28, 0), "test: no kernel nothing");
  EXPECT_EQ(attempt("vector_add", 256, 28, 0),
            "emulated device, kernel vector_add: expected at most 128 threads a block (.maxntid), "
            "got 256");
  EXPECT_EQ(attempt("vector_add", 128, 24, 0),
            "emulated device, kernel vector_add: expected 28 bytes of parameters, got 24");
  EXPECT_EQ(attempt("vector_add", 128, 28, 300000),
            "emulated device, kernel vector_add: expected at most 232448 bytes of shared memory a "
            "block, got 300000");
}

TEST(EmuLaunch, NamesTheNodeOfALine) {
  // Every thread stores to the same place, once for each of three nodes.
  LaunchOptions options;
  options.node = "layers[0]";
  options.nodes = {"layers[0].attn.q_norm", "layers[0].attn.rope"};
  SmallRun run(smallKernel(".loc 1 1 0\nst.global.u32 [%d3], %r0;\n.loc 1 2 0\n"
                           "st.global.u32 [%d3+8], %r0;\n.loc 1 0 0\nst.global.u32 [%d3+16], %r0;"),
               32, {0}, 1, options);
  ASSERT_EQ(run.report.findings.size(), 3u);
  EXPECT_EQ(run.report.findings[0].node, "layers[0].attn.q_norm");
  EXPECT_EQ(run.report.findings[1].node, "layers[0].attn.rope");
  EXPECT_EQ(run.report.findings[2].node, "layers[0]");
}

TEST(EmuLaunch, NamesNodesByTheLayerOfTheLaunch) {
  std::vector<std::string> ofKernel = {"layers[0].ffn.residual + layers[1].attn.input_norm",
                                       "embed", "kernel.rows"};
  std::vector<std::string> ofLaunch = {"layers[6].attn.input_norm", "layers[5].ffn.residual",
                                       "embed"};
  std::vector<std::string> names = {"layers[5].ffn.residual + layers[6].attn.input_norm", "embed",
                                    "kernel.rows"};
  EXPECT_EQ(nodesOfLaunch(ofKernel, ofLaunch), names);
  EXPECT_EQ(nodesOfLaunch({}, ofLaunch), std::vector<std::string>());
  EXPECT_EQ(nodesOfLaunch(ofKernel, {}), ofKernel);
}

TEST(EmuLaunch, KeepsTheNodesOfAnObject) {
  codegen::EmuCodegenOptions options;
  options.nodes = {"embed", "layers[0].attn.q_norm"};
  auto object = codegen::compilePtx(smallKernel("mov.u32 %r1, %r0;"), options);
  ASSERT_TRUE(object.ok());
  auto module = Module::load(object->bytes, "object");
  ASSERT_TRUE(module.ok());
  EXPECT_EQ(module->nodes(), options.nodes);
}

TEST(EmuLaunch, ReadsItsOptionsFromText) {
  auto options = launchOptionsFrom("order=reverse,async=random,seed=7,mma=truncate,checks=off");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->order, Order::Reverse);
  EXPECT_EQ(options->asyncMode, AsyncMode::Random);
  EXPECT_EQ(options->seed, 7u);
  EXPECT_EQ(options->mmaRounding, MmaRounding::Truncated);
  EXPECT_FALSE(options->checkRaces || options->checkBounds);
  EXPECT_EQ(launchOptionsFrom("mma=nearest")->mmaRounding, MmaRounding::Nearest);
  EXPECT_EQ(launchOptionsFrom("")->order, Order::Forward);
  for (const char *bad : {"mma=", "mma", "order=up", "seed=", "seed=1x", "checks", "faults=1"}) {
    auto refused = launchOptionsFrom(bad);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_EQ(refused.error().message.rfind("GEMMA_EMU: expected ", 0), 0u) << bad;
  }
}

TEST_F(VectorAdd, RunsSampledBlocksAlone) {
  std::fill(y.data, y.data + count, -1.0f);
  LaunchOptions options;
  options.sampledBlocks = {2, 5};
  Expected<LaunchReport> report = run(count, 8, options);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->counters.blocks, 2u);
  for (size_t i = 0; i < count; ++i)
    ASSERT_EQ(y[i], i / 128 == 2 || i / 128 == 5 ? a[i] + b[i] : -1.0f) << i;
}

} // namespace
} // namespace gemma::emu::test
