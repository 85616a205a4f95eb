// Text, logits and caches of a CUDA device are those of the emulated one to the last bit, from
// whatever code it takes.
#include "CudaModel.h"

#include "runtime/device/emu/EmuModule.h"
#include "runtime/support/Hash.h"

#include <map>

namespace gemma::test {
namespace {

// What is emulated is what is assembled, or left to the driver.
TEST_F(CudaModelTest, DevicesGetTheEmulatedPtx) {
  std::map<std::string, std::string> given, emulated, givenHashes, emulatedHashes;
  for (const KernelBinary &object : artifact->objects) {
    if (object.kind == ObjectKind::Ptx) {
      given[object.kernel] = object.bytes;
      givenHashes[object.kernel] = hashHex(object.bytes);
    } else if (object.kind == ObjectKind::Emulator) {
      auto module = emu::Module::load(object.bytes, object.name);
      ASSERT_TRUE(module) << module.error().message;
      emulated[object.kernel] = module->ptx();
      emulatedHashes[object.kernel] = module->ptxHash();
    }
  }
  EXPECT_GE(given.size(), 20u);
  EXPECT_EQ(given, emulated);
  EXPECT_EQ(givenHashes, emulatedHashes);
}

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

} // namespace
} // namespace gemma::test
