// A whole model on a CUDA device: the fake driver executes what the emulated device would, so text,
// logits and caches must be the same to the last bit; and every error that a driver can give must
// come out as a message, leave the sequences as they were and nothing behind.
#include "FakeCuda.h"

#include "runtime/engine/Generator.h"
#include "tools/compiler/Compiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

using namespace gemma;
using gemma::test::contains;
using gemma::test::FakeCuda;
using gemma::test::startsWith;

namespace {

using Ids = std::vector<int32_t>;

const Ids prompt = {2, 523, 306, 651, 91,  1007, 12, 40,   3000, 77,
                    8, 9,   10,  11,  120, 13,   14, 1500, 16,   17};

/// The model compiled once: PTX and the emulator's objects of it.
class CudaModelTest : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    // Two threads and no detectors: those watch the same kernels in EmulatedModelTest.
    ::setenv("GEMMA_EMU", "checks=off", 1);
    auto opened = Checkpoint::open(std::filesystem::path(GEMMA_SOURCE_DIR) / "examples/kjv-mini");
    ASSERT_TRUE(opened) << opened.error().message;
    checkpoint = new Checkpoint(std::move(*opened));
    compiler::CompileOptions options;
    options.dtype = ScalarType::BF16;
    options.targets = {"ptx-sm_80", "emu-sm_80"};
    options.maxContext = 128;
    options.maxChunk = 16;
    options.maxBatch = 2;
    auto made = compiler::compileCheckpoint(*checkpoint, options);
    ASSERT_TRUE(made) << made.error().message;
    artifact = new Artifact(std::move(*made));
  }
  static void TearDownTestSuite() {
    delete artifact;
    delete checkpoint;
  }

  struct Loaded {
    std::shared_ptr<const Model> model;
    std::unique_ptr<Context> context;
  };

  static Expected<Loaded> load(const char *device, bool poison = false,
                               const Artifact &from = *artifact) {
    ModelOptions options;
    options.device = *DeviceChoice::parse(device);
    auto model = Model::load(from, *checkpoint, options);
    if (!model)
      return model.status();
    ContextOptions contextOptions;
    contextOptions.threads = 2;
    contextOptions.poison = poison;
    auto context = Context::create(*model, contextOptions);
    if (!context)
      return context.status();
    return Loaded{*model, std::move(*context)};
  }

  static std::vector<double> lastRow(const Context &context, const StepResult &result) {
    auto view = context.output("logits");
    std::vector<double> row(size_t(view->rowElements));
    view->copyRow(result.logitRows - 1, row);
    return row;
  }

  /// The prompt, then `count` tokens, the most likely always; their logits too.
  struct Text {
    Ids tokens;
    std::vector<std::vector<double>> logits;
    bool operator==(const Text &) const = default;
  };
  static Expected<Text> generate(Context &context, Sequence &sequence, int count) {
    Text text;
    auto take = [&](int64_t, const StepResult &result) {
      text.logits.push_back(lastRow(context, result));
      const std::vector<double> &row = text.logits.back();
      text.tokens.push_back(int32_t(std::max_element(row.begin(), row.end()) - row.begin()));
      return Status();
    };
    if (Status status = context.extend(sequence, prompt, LogitsWanted::Last, take); !status)
      return status;
    for (int i = 1; i < count; ++i)
      if (Status status =
              context.extend(sequence, {{text.tokens.back()}}, LogitsWanted::Last, take);
          !status)
        return status;
    return text;
  }
  static Expected<Text> generate(const char *device, int count, bool poison = false) {
    auto loaded = load(device, poison);
    if (!loaded)
      return loaded.status();
    auto sequence = loaded->context->newSequence();
    if (!sequence)
      return sequence.status();
    return generate(*loaded->context, **sequence, count);
  }

  static const Checkpoint *checkpoint;
  static const Artifact *artifact;
};
const Checkpoint *CudaModelTest::checkpoint;
const Artifact *CudaModelTest::artifact;

TEST_F(CudaModelTest, TextAndLogitsOfTheEmulatedDevice) {
  FakeCuda fake;
  auto expected = generate("emu", 6);
  ASSERT_TRUE(expected) << expected.error().message;
  auto got = generate("cuda:0", 6);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->tokens, expected->tokens);
  EXPECT_TRUE(*got == *expected);
  EXPECT_EQ(fake.live(), 0u);
  // What nobody may read is NaN, on the device too.
  auto poisoned = generate("cuda:0", 2, /*poison=*/true);
  ASSERT_TRUE(poisoned) << poisoned.error().message;
  for (size_t i = 0; i < poisoned->logits.size(); ++i)
    EXPECT_EQ(poisoned->logits[i], expected->logits[i]) << i;
  EXPECT_EQ(fake.live(), 0u);
}

// Machine code is taken before PTX, and by the name of its architecture.
TEST_F(CudaModelTest, MachineCode) {
  FakeCuda fake("cc=8.6");
  Artifact withCode = *artifact;
  for (const KernelBinary &object : artifact->objects)
    if (object.kind == ObjectKind::Ptx)
      withCode.objects.push_back({"sm_80/" + object.kernel,
                                  ObjectKind::Cubin,
                                  object.kernel,
                                  {},
                                  "FAKE CUBIN sm_80\n" + object.bytes});
  {
    auto loaded = load("auto", false, withCode);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->model->isa(), "cuda:0 (Fake GPU), code for sm_80");
  }
  fake.configure("cc=9.0");
  auto loaded = load("auto", false, withCode);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->model->isa(), "cuda:0 (Fake GPU), code for PTX for sm_80");
}

TEST_F(CudaModelTest, OneCopyInOneWaitAStep) {
  FakeCuda fake;
  auto loaded = load("cuda:0");
  ASSERT_TRUE(loaded) << loaded.error().message;
  auto sequence = loaded->context->newSequence();
  auto count = [&](const Ids &tokens, LogitsWanted wanted) {
    fake.configure("");
    StepRow row{sequence->get(), tokens, wanted};
    auto result = loaded->context->step({&row, 1});
    EXPECT_TRUE(result) << result.error().message;
    return std::array{fake.calls("cuMemcpyHtoDAsync"), fake.calls("cuMemcpyDtoHAsync"),
                      fake.calls("cuStreamSynchronize")};
  };
  using Counts = std::array<unsigned, 3>;
  EXPECT_EQ(count({2, 3, 4}, LogitsWanted::None), (Counts{1, 0, 1}));
  EXPECT_EQ(count({5}, LogitsWanted::Last), (Counts{1, 1, 1}));
  EXPECT_EQ(count({6, 7}, LogitsWanted::All), (Counts{1, 1, 1}));
}

// Greedy decoding reads back the token: no logits, nothing else to wait for.
TEST_F(CudaModelTest, GreedyDecodingReadsTokens) {
  FakeCuda fake;
  auto expected = generate("emu", 8);
  ASSERT_TRUE(expected) << expected.error().message;
  auto loaded = load("cuda:0");
  ASSERT_TRUE(loaded) << loaded.error().message;
  Context &context = *loaded->context;
  auto sequence = context.newSequence();
  GenerationOptions options;
  options.maxTokens = 8;
  options.ignoreEos = true;
  GenerationEvents events;
  std::vector<std::array<uint64_t, 5>> counts; // a token each
  events.onToken = [&](int32_t, std::span<const double> logits) {
    EXPECT_TRUE(logits.empty());
    EXPECT_FALSE(context.output("logits"));
    EXPECT_TRUE(context.output(topIdsName));
    counts.push_back({fake.calls("cuMemcpyHtoDAsync"), fake.calls("cuMemcpyDtoHAsync"),
                      fake.calls("cuGraphLaunch"), fake.calls("cuStreamSynchronize"),
                      fake.bytesToHost()});
    fake.configure("");
    return Status();
  };
  auto result = gemma::generate(context, **sequence, prompt, options, events, nullptr);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->tokens, expected->tokens);
  ASSERT_EQ(counts.size(), 8u);
  // Values and ids of up to 16 rows lie beside each other: one copy of the first row of both.
  const uint64_t bytes = 64 + 4;
  for (size_t i = 1; i < counts.size(); ++i) {
    auto [toDevice, toHost, graphs, waits, copied] = counts[i];
    EXPECT_EQ(waits, 1u) << i;
    EXPECT_EQ(copied, bytes) << i;
    // A graph has its copies inside; one is made at the second step with its number of splits.
    EXPECT_LE(toDevice, 1u) << i;
    EXPECT_LE(toHost, 1u) << i;
    EXPECT_TRUE(graphs == 1 || (toDevice == 1 && toHost == 1)) << i;
  }
  // With logits: all of them, and only then.
  fake.configure("");
  const Ids next = {7};
  StepRow row{sequence->get(), next, LogitsWanted::Last};
  ASSERT_TRUE(context.step({&row, 1}));
  EXPECT_EQ(fake.bytesToHost(), 4096u * 4);
  EXPECT_TRUE(context.output("logits"));
  EXPECT_FALSE(context.output(topIdsName));
  fake.configure("");
  ASSERT_TRUE(context.step({&row, 1}, OutputsWanted::All));
  EXPECT_GE(fake.bytesToHost(), 4096u * 4 + 8);
  EXPECT_TRUE(context.output("logits") && context.output(topValuesName));
}

// Of the page table, the rows that a step has are copied.
TEST_F(CudaModelTest, RowsOfThePageTable) {
  FakeCuda fake;
  auto loaded = load("cuda:0");
  ASSERT_TRUE(loaded) << loaded.error().message;
  Context &context = *loaded->context;
  auto first = context.newSequence(), second = context.newSequence();
  const Ids token = {5};
  std::vector<StepRow> rows = {{first->get(), token, LogitsWanted::Last},
                               {second->get(), token, LogitsWanted::Last}};
  auto bytes = [&](size_t count) {
    fake.configure("");
    auto result = context.step(std::span(rows).first(count));
    EXPECT_TRUE(result) << result.error().message;
    return fake.bytesToDevice();
  };
  uint64_t one = bytes(1), two = bytes(2);
  EXPECT_EQ(two - one, uint64_t(context.model().program().pagesPerSequence()) * 4);
}

// What tests and --nodes-out look at is brought from the device.
TEST_F(CudaModelTest, NodesAndCaches) {
  FakeCuda fake;
  std::vector<std::vector<std::byte>> seen[2];
  for (int side = 0; side < 2; ++side) {
    auto loaded = load(side ? "cuda:0" : "emu");
    ASSERT_TRUE(loaded) << loaded.error().message;
    Context &context = *loaded->context;
    auto sequence = context.newSequence();
    context.observeLaunches([&](size_t variant, size_t index) {
      const Program &program = context.model().program();
      const Launch &launch = program.variants[variant].launches[index];
      for (size_t i = 0; i < launch.arguments.size(); ++i) {
        const LaunchArgument &argument = launch.arguments[i];
        if (argument.kind != LaunchArgument::Kind::Buffer ||
            program.kernels[size_t(launch.kernel)].access[i] == 0)
          continue;
        // The rows of 3 tokens, where each row is as wide as the next one is far.
        int64_t elements = argument.extent == 'T' ? 3 : 1;
        for (int64_t size : argument.shape)
          elements *= size;
        const std::byte *data = context.argumentData(variant, index, i);
        ASSERT_TRUE(data);
        if (argument.shape.size() == 1 && argument.stride == argument.shape[0])
          seen[side].emplace_back(data, data + size_t(elements) * byteWidth(argument.type));
      }
    });
    StepRow row{sequence->get(), std::span(prompt).first(3), LogitsWanted::Last};
    auto result = context.step({&row, 1});
    ASSERT_TRUE(result) << result.error().message;
    ASSERT_TRUE(context.fetchCaches());
    for (size_t cache = 0; cache < context.model().program().caches.size(); ++cache)
      for (const char *lane : {"k", "v"}) {
        std::span<const std::byte> bytes = context.cacheLane(cache, lane);
        seen[side].emplace_back(bytes.begin(), bytes.end());
      }
  }
  EXPECT_GT(seen[0].size(), 20u);
  EXPECT_TRUE(seen[0] == seen[1]);
  EXPECT_EQ(fake.live(), 0u);
}

TEST_F(CudaModelTest, NotEnoughMemory) {
  FakeCuda fake("memory=3000000");
  auto loaded = load("cuda:0");
  ASSERT_FALSE(loaded);
  EXPECT_PRED2(startsWith, loaded.error().message,
               "cuda:0 (Fake GPU): not enough memory: expected ");
  EXPECT_PRED2(contains, loaded.error().message,
               " bytes free and 67108864 more for the driver, got 3000000 of 3000000; the plan is");
  EXPECT_PRED2(contains, loaded.error().message, "KV, global layers");
  EXPECT_EQ(fake.live(), 0u);
  // The driver's share, 64 MiB, makes the difference; what is there before a context counts.
  fake.configure("");
  auto fits = load("cuda:0");
  ASSERT_TRUE(fits) << fits.error().message;
  uint64_t needed = fits->model->bytes() + fits->context->plan().contextBytes();
  fits = badInput("gone");
  fake.configure("memory=" + std::to_string(needed + (64 << 20) + 4096));
  EXPECT_TRUE(load("cuda:0"));
  fake.configure("memory=" + std::to_string(needed + (64 << 20) - 4096));
  EXPECT_FALSE(load("cuda:0"));
  // Of a large device it is a hundredth.
  fake.configure("memory=20000000000");
  fits = load("cuda:0");
  ASSERT_TRUE(fits);
  auto refused = fits->model->checkMemory(19900000000, fits->context->plan());
  ASSERT_FALSE(refused);
  EXPECT_PRED2(contains, refused.error().message, " and 200000000 more for the driver");
  fits = badInput("gone");
  EXPECT_EQ(fake.live(), 0u);
}

TEST_F(CudaModelTest, Choices) {
  FakeCuda fake("devices=0");
  // A CUDA device that cannot be used is no reason to stop where the emulated one will do.
  auto fallback = load("auto");
  ASSERT_TRUE(fallback) << fallback.error().message;
  EXPECT_EQ(fallback->model->isa(), "emulated sm_80");
  EXPECT_PRED2(contains, fallback->model->whyNotCuda(), "cuInit: CUDA_ERROR_NO_DEVICE");
  auto asked = load("emu");
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->model->whyNotCuda(), "");
  auto refused = load("cuda:0");
  ASSERT_FALSE(refused);
  EXPECT_PRED2(contains, refused.error().message, "CUDA_ERROR_NO_DEVICE");
  auto host = load("host");
  ASSERT_FALSE(host);
  EXPECT_EQ(host.error().kind, ErrorKind::Usage);
  EXPECT_PRED2(startsWith, host.error().message, "device host: the artifact was compiled for CUDA");

  auto without = [&](std::vector<ObjectKind> kinds) {
    Artifact less = *artifact;
    std::erase_if(less.objects, [&](const KernelBinary &object) {
      return std::ranges::find(kinds, object.kind) != kinds.end();
    });
    return less;
  };
  Artifact ptxAlone = without({ObjectKind::Emulator}), emulatorAlone = without({ObjectKind::Ptx});
  auto nothing = load("auto", false, ptxAlone);
  ASSERT_FALSE(nothing);
  EXPECT_PRED2(contains, nothing.error().message, "CUDA_ERROR_NO_DEVICE");
  auto noEmulator = load("emu", false, ptxAlone);
  ASSERT_FALSE(noEmulator);
  EXPECT_EQ(noEmulator.error().kind, ErrorKind::Usage);
  fake.configure("");
  auto noCode = load("cuda:0", false, emulatorAlone);
  ASSERT_FALSE(noCode);
  EXPECT_EQ(noCode.error().kind, ErrorKind::Usage);
  EXPECT_EQ(load("auto", false, emulatorAlone)->model->isa(), "emulated sm_80");
  EXPECT_EQ(fake.live(), 0u);
}

// A step that fails changes nothing that a later one sees.
TEST_F(CudaModelTest, AStepThatFails) {
  FakeCuda fake;
  auto expected = generate("cuda:0", 3);
  ASSERT_TRUE(expected) << expected.error().message;
  {
    auto loaded = load("cuda:0");
    ASSERT_TRUE(loaded) << loaded.error().message;
    Context &context = *loaded->context;
    auto other = context.newSequence();
    auto sequence = context.newSequence();
    Ids longest(size_t(context.contextLength()), 5);
    for (const char *entry : {"cuMemcpyHtoDAsync:1", "cuLaunchKernel:1", "cuLaunchKernel:9",
                              "cuMemcpyDtoHAsync:1", "cuStreamSynchronize:1"}) {
      fake.configure("fail=" + std::string(entry) + ":1");
      StepRow row{sequence->get(), std::span(prompt).first(16), LogitsWanted::Last};
      auto result = context.step({&row, 1});
      ASSERT_FALSE(result) << entry;
      std::string name(entry, std::string_view(entry).find(':'));
      EXPECT_PRED2(contains, result.error().message, name + ": CUDA_ERROR_INVALID_VALUE");
      if (name == "cuLaunchKernel")
        EXPECT_PRED2(contains, result.error().message, entry[15] == '1' ? "(embed" : "(layers[");
      EXPECT_EQ((*sequence)->length(), 0);
      EXPECT_EQ(context.output("logits")->rows, 0);
    }
    fake.configure("");
    auto text = generate(context, **sequence, 3);
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_TRUE(*text == *expected);
    // Both sequences can still have all their pages: none was lost.
    ASSERT_TRUE((*sequence)->truncate(0));
    for (auto *one : {&*sequence, &*other})
      EXPECT_TRUE(context.extend(**one, std::span(longest).first(33), LogitsWanted::None, {}));
  }
  EXPECT_EQ(fake.live(), 0u);
}

// Errors that end the device, in the middle of a conversation.
TEST_F(CudaModelTest, ADeviceThatIsLost) {
  FakeCuda fake;
  for (const char *entry : {"cuLaunchKernel:5", "cuStreamSynchronize:1"}) {
    fake.configure("");
    {
      auto loaded = load("cuda:0");
      ASSERT_TRUE(loaded) << loaded.error().message;
      auto sequence = loaded->context->newSequence();
      ASSERT_TRUE(generate(*loaded->context, **sequence, 1));
      int64_t length = (*sequence)->length();
      fake.configure("fail=" + std::string(entry) + ":719");
      for (int tries = 0; tries < 2; ++tries) {
        StepRow row{sequence->get(), std::span(prompt).first(1), LogitsWanted::Last};
        auto result = loaded->context->step({&row, 1});
        ASSERT_FALSE(result);
        EXPECT_PRED2(contains, result.error().message, "CUDA_ERROR_LAUNCH_FAILED");
        EXPECT_EQ((*sequence)->length(), length);
      }
    }
    EXPECT_EQ(fake.live(), 0u) << entry;
  }
}

// With GEMMA_CUDA_SYNC=1 the kernel that an error comes from has a name.
TEST_F(CudaModelTest, WaitingForEachLaunch) {
  ::setenv("GEMMA_CUDA_SYNC", "1", 1);
  FakeCuda fake;
  auto loaded = load("cuda:0");
  ::unsetenv("GEMMA_CUDA_SYNC");
  ASSERT_TRUE(loaded) << loaded.error().message;
  auto sequence = loaded->context->newSequence();
  fake.configure("fail=cuStreamSynchronize:1:700");
  StepRow row{sequence->get(), std::span(prompt).first(1), LogitsWanted::Last};
  auto result = loaded->context->step({&row, 1});
  ASSERT_FALSE(result);
  EXPECT_PRED2(startsWith, result.error().message, "kernel ");
  EXPECT_PRED2(contains, result.error().message, "(embed");
  EXPECT_PRED2(contains, result.error().message, "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS");
}

// Steps that come again are graphs: nothing is launched one by one, and no number changes.
TEST_F(CudaModelTest, StepsBecomeGraphs) {
  FakeCuda fake;
  ::setenv("GEMMA_CUDA_GRAPHS", "0", 1);
  auto expected = generate("cuda:0", 6);
  ::unsetenv("GEMMA_CUDA_GRAPHS");
  ASSERT_TRUE(expected) << expected.error().message;
  EXPECT_EQ(fake.calls("cuGraphLaunch"), 0u);
  {
    auto loaded = load("cuda:0");
    ASSERT_TRUE(loaded) << loaded.error().message;
    auto sequence = loaded->context->newSequence();
    auto got = generate(*loaded->context, **sequence, 6);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_TRUE(*got == *expected);
    EXPECT_GE(fake.calls("cuGraphLaunch"), 3u);
    // Another sequence's tokens, other places in the caches: the same graph.
    auto other = loaded->context->newSequence();
    fake.configure("");
    auto again = generate(*loaded->context, **other, 6);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_TRUE(*again == *expected);
    EXPECT_GE(fake.calls("cuGraphLaunch"), 5u);
    EXPECT_EQ(fake.calls("cuStreamBeginCapture"), fake.calls("cuGraphInstantiateWithFlags"));
  }
  EXPECT_EQ(fake.live(), 0u);
}

// Graphs take memory that is not planned: where there is none, steps go on without.
TEST_F(CudaModelTest, NoMemoryForGraphs) {
  FakeCuda fake;
  auto expected = generate("cuda:0", 6);
  ASSERT_TRUE(expected) << expected.error().message;
  for (const char *entry : {"cuGraphInstantiateWithFlags", "cuGraphLaunch"}) {
    fake.configure("fail=" + std::string(entry) + ":1:2");
    auto got = generate("cuda:0", 6);
    ASSERT_TRUE(got) << entry << ": " << got.error().message;
    EXPECT_TRUE(*got == *expected) << entry;
    EXPECT_LE(fake.calls("cuGraphLaunch"), 1u) << entry;
    EXPECT_EQ(fake.live(), 0u) << entry;
  }
}

// Each entry point fails at its first call and at its last.
TEST_F(CudaModelTest, EveryEntryPoint) {
  struct Entry {
    const char *name;
    bool givesBack; ///< its error is nobody's
  };
  static constexpr Entry entries[] = {
      {"cuInit", false},
      {"cuDriverGetVersion", false},
      {"cuDeviceGetCount", false},
      {"cuDeviceGet", false},
      {"cuDeviceGetName", false},
      {"cuDeviceGetAttribute", false},
      {"cuDeviceTotalMem", false},
      {"cuDevicePrimaryCtxRetain", false},
      {"cuDevicePrimaryCtxRelease", true},
      {"cuMemGetInfo", false},
      {"cuModuleLoadDataEx", false},
      {"cuModuleUnload", true},
      {"cuModuleGetFunction", false},
      {"cuFuncGetAttribute", false},
      {"cuFuncSetAttribute", false},
      {"cuMemAlloc", false},
      {"cuMemFree", true},
      {"cuMemHostAlloc", false},
      {"cuMemFreeHost", true},
      {"cuMemcpyHtoDAsync", false},
      {"cuMemcpyDtoHAsync", false},
      {"cuMemsetD8Async", false},
      {"cuStreamCreate", false},
      {"cuStreamDestroy", true},
      {"cuLaunchKernel", false},
      {"cuStreamBeginCapture", false},
      {"cuStreamEndCapture", false},
      {"cuGraphInstantiateWithFlags", false},
      {"cuGraphLaunch", false},
      {"cuGraphDestroy", true},
      {"cuGraphExecDestroy", true},
  };
  // Three steps of one token: the third one's graph is the second one's.
  auto run = [&]() -> Status {
    auto loaded = load("cuda:0");
    if (!loaded)
      return loaded.status();
    auto sequence = loaded->context->newSequence();
    for (int32_t token : {2, 651, 7})
      if (Status status = loaded->context->extend(**sequence, {{token}}, LogitsWanted::Last, {});
          !status) {
        EXPECT_LT((*sequence)->length(), 3);
        return status;
      }
    return {};
  };
  FakeCuda fake;
  Status fine = run();
  ASSERT_TRUE(fine) << fine.error().message;
  std::map<std::string, unsigned> calls;
  for (const Entry &entry : entries)
    calls[entry.name] = fake.calls(entry.name);
  for (const Entry &entry : entries) {
    ASSERT_GT(calls[entry.name], 0u) << entry.name;
    for (unsigned nth : std::set<unsigned>{1, calls[entry.name]}) {
      std::string failure = std::string(entry.name) + ":" + std::to_string(nth);
      fake.configure("fail=" + failure + ":1");
      Status status = run();
      EXPECT_EQ(bool(status), entry.givesBack) << failure;
      if (!status)
        EXPECT_PRED2(contains, status.error().message,
                     std::string(entry.name) + ": CUDA_ERROR_INVALID_VALUE");
      EXPECT_EQ(fake.live(), 0u) << failure;
    }
  }
}

} // namespace
