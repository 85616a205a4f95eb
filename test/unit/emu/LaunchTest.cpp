#include "test/unit/emu/EmuHarness.h"

#include "runtime/device/emu/EmuExecutor.h"

namespace gemma::emu::test {
namespace {

class VectorAdd : public ::testing::Test {
protected:
  Expected<LaunchReport> run(uint32_t elements, uint32_t blocks,
                             const LaunchOptions &options = {}) {
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

// Global memory that nobody has written: what the host gave may be read, and what a launch wrote by
// later ones, whatever the bytes are.
TEST_F(VectorAdd, FindsReadsOfWhatNobodyWrote) {
  Buffer<float> x{memory, count, "x"};
  ASSERT_TRUE(memory.track(x.data));
  a.data = x.data;
  std::fill(x.data, x.data + count, 1.0f);
  memory.wrote(x.data, count * sizeof(float));
  memory.forget(x.data + 3, 1); // one byte of the fourth
  Expected<LaunchReport> report = run(count, 8);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->completed);
  ASSERT_EQ(report->findings.size(), 1u) << report->messages();
  const Finding &finding = report->findings[0];
  EXPECT_EQ(finding.kind, FindingKind::UnwrittenGlobal);
  EXPECT_EQ(finding.count, 1u);
  EXPECT_NE(finding.detail.find("thread 3 reads byte 12 of x"), std::string::npos)
      << finding.message();

  // x = x + b over what the launch wrote.
  y.data = x.data;
  memory.wrote(x.data + 3, 1);
  report = run(count, 8);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->messages(), "");
  // Where some blocks run alone, others may have been meant to write.
  memory.forget(x.data, count * sizeof(float));
  LaunchOptions options;
  options.sampledBlocks = {2, 5};
  report = run(count, 8, options);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->messages(), "");
}

TEST(EmuMemory, WrittenBytesAreKeptByTheByte) {
  WrittenBytes written(0x1008, 0x1108);
  EXPECT_EQ(written.firstUnwritten(0x1008, 16), 0x1008u);
  written.mark(0x1008, 0x100);
  EXPECT_EQ(written.firstUnwritten(0x1008, 0x100), 0x1108u);
  written.forget(0x1020, 1);
  EXPECT_EQ(written.firstUnwritten(0x1008, 0x100), 0x1020u);
  EXPECT_EQ(written.firstUnwritten(0x1021, 0x20), 0x1041u);
  written.mark(0x1000, 0x1000); // as far as there is memory
  EXPECT_EQ(written.firstUnwritten(0x1010, 0xf8), 0x1108u);
}

// An atomic reads before it writes.
TEST(EmuMemory, FindsAtomicsOnWhatNobodyWrote) {
  GlobalMemory memory;
  Buffer<uint64_t> in(memory, 32, "in"), out(memory, 32, "out");
  ASSERT_TRUE(memory.track(out.data));
  ParamBuilder params;
  params.add(in.data).add(out.data);
  const Module &module = moduleOf(smallKernel("atom.global.add.u32 %r3, [%d3], 1;"));
  auto findings = [&] {
    auto report = launch(module, "k", {1, 1, 1}, {32, 1, 1}, 0, params.bytes(), memory, pool());
    EXPECT_TRUE(report.ok());
    return report->findings;
  };
  auto found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, FindingKind::UnwrittenGlobal);
  memory.wrote(out.data, 4);
  EXPECT_TRUE(findings().empty());
}

} // namespace
} // namespace gemma::emu::test
