// Every error that a driver can give comes out as a message, leaves the sequences as they were and
// nothing behind.
#include "CudaModel.h"

#include "runtime/device/cuda/Api.h"

#include <map>
#include <set>

namespace gemma::test {
namespace {

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

// Each entry point that the runtime knows fails at its first call and at its last.
TEST_F(CudaModelTest, EveryEntryPoint) {
  // Their error is nobody's.
  const std::set<std::string> giveBack = {
      "cuDevicePrimaryCtxRelease", "cuModuleUnload", "cuMemFree",         "cuMemFreeHost",
      "cuStreamDestroy",           "cuGraphDestroy", "cuGraphExecDestroy"};
  // Called while something is given back too, last of all.
  const std::set<std::string> alsoGiveBack = {"cuCtxSetCurrent", "cuStreamSynchronize"};
  std::set<std::string> entries;
  cuda::Api().forEach([&](const auto &entry) {
    std::string name = entry.name;
    entries.insert(name.substr(0, name.rfind("_v")));
  });
  for (const char *speaks : {"cuGetErrorName", "cuGetErrorString"}) // of errors
    EXPECT_EQ(entries.erase(speaks), 1u);
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
  for (const std::string &entry : entries)
    calls[entry] = fake.calls(entry.c_str());
  for (const std::string &entry : entries) {
    ASSERT_GT(calls[entry], 0u) << entry;
    unsigned last = alsoGiveBack.contains(entry) ? 1 : calls[entry];
    for (unsigned nth : std::set<unsigned>{1, last}) {
      std::string failure = entry + ":" + std::to_string(nth);
      fake.configure("fail=" + failure + ":1");
      Status status = run();
      EXPECT_EQ(bool(status), giveBack.contains(entry)) << failure;
      if (!status)
        EXPECT_PRED2(contains, status.error().message, entry + ": CUDA_ERROR_INVALID_VALUE");
      EXPECT_EQ(fake.live(), 0u) << failure;
    }
  }
}

} // namespace
} // namespace gemma::test
