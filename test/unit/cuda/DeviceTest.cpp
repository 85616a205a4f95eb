// CUDA devices as the driver describes them, their memory and copies; over the fake driver.
#include "FakeCuda.h"

#include "runtime/device/cuda/Staging.h"

#include <gtest/gtest.h>

#include <random>

using namespace gemma;
using namespace gemma::cuda;
using gemma::test::contains;
using gemma::test::FakeCuda;
using gemma::test::startsWith;

namespace {

std::string openError(int ordinal = 0) {
  Expected<std::shared_ptr<const Device>> device = Device::open(ordinal);
  return device ? "opened " + (*device)->title() : device.error().message;
}

TEST(CudaDevice, NoLibrary) {
  ::setenv("GEMMA_LIBCUDA", "/nowhere/libcuda.so.1", 1);
  EXPECT_PRED2(startsWith, openError(), "no CUDA driver: cannot open /nowhere/libcuda.so.1: ");
  ::unsetenv("GEMMA_LIBCUDA");
}

TEST(CudaDevice, LibraryWithoutTheEntryPoints) {
  ::setenv("GEMMA_LIBCUDA", GEMMA_TEST_OBJECTS "/Plain.so", 1);
  std::string error = openError();
  EXPECT_PRED2(startsWith, error, "CUDA driver too old: ");
  EXPECT_PRED2(contains, error, "Plain.so has no cuInit, cuDriverGetVersion, ");
  EXPECT_PRED2(contains, error, "cuGraphDestroy");
  ::unsetenv("GEMMA_LIBCUDA");
}

TEST(CudaDevice, Facts) {
  FakeCuda fake("cc=8.6,driver=12040,memory=123456789,shared=101376");
  {
    Expected<std::shared_ptr<const Device>> device = Device::open(0);
    ASSERT_TRUE(device) << device.error().message;
    const DeviceFacts &facts = (*device)->facts();
    EXPECT_EQ((*device)->title(), "cuda:0 (Fake GPU)");
    EXPECT_EQ(facts.major, 8);
    EXPECT_EQ(facts.minor, 6);
    EXPECT_EQ(facts.driverVersion, 12040);
    EXPECT_EQ(facts.memoryBytes, 123456789u);
    EXPECT_EQ(facts.sharedBytesPerBlock, 101376u);
    EXPECT_EQ(facts.threadsPerBlock, 1024u);
    EXPECT_EQ(facts.multiprocessors, 4u);
    EXPECT_EQ(fake.live(), 1u); // the context
  }
  EXPECT_EQ(fake.live(), 0u);
}

TEST(CudaDevice, Refusals) {
  FakeCuda fake("devices=0");
  EXPECT_EQ(openError(), "cuda:0: cuInit: CUDA_ERROR_NO_DEVICE (a text of the fake driver)");
  fake.configure("devices=2");
  EXPECT_EQ(openError(1), "opened cuda:1 (Fake GPU)");
  EXPECT_EQ(openError(2), "no device cuda:2: the driver has 2, from cuda:0 on");
  fake.configure("driver=11080");
  EXPECT_EQ(openError(), "CUDA driver too old: expected one for CUDA 12.0 or newer, got 11.8");
  // A code that the driver has no name for.
  fake.configure("fail=cuDeviceGetName:1:777");
  EXPECT_EQ(openError(), "cuda:0: cuDeviceGetName: error 777");
  EXPECT_EQ(fake.live(), 0u);
}

TEST(CudaDevice, EveryEntryPointOfOpening) {
  FakeCuda fake;
  for (const char *entry :
       {"cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
        "cuDeviceTotalMem", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain"}) {
    fake.configure("fail=" + std::string(entry) + ":1:1");
    EXPECT_PRED2(contains, openError(), std::string(entry) + ": CUDA_ERROR_INVALID_VALUE") << entry;
    EXPECT_EQ(fake.live(), 0u) << entry;
  }
}

TEST(CudaDevice, MemoryRunsOut) {
  FakeCuda fake("memory=1000000");
  {
    auto device = *Device::open(0);
    EXPECT_EQ(*device->freeBytes(), 1000000u);
    Expected<Memory> some = device->allocate(600000, "one thing");
    ASSERT_TRUE(some);
    EXPECT_EQ(*device->freeBytes(), 400000u);
    Expected<Memory> more = device->allocate(400001, "another");
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().message,
              "cuda:0 (Fake GPU): cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (a text of the fake "
              "driver): 400001 bytes for another");
  }
  EXPECT_EQ(fake.live(), 0u);
}

// The fake copies when somebody waits: a buffer that is filled again too early shows.
TEST(CudaStaging, CopiesOfAllLengths) {
  FakeCuda fake;
  {
    auto device = *Device::open(0);
    constexpr size_t buffer = 1000, most = 5 * buffer + 7;
    Memory memory = *device->allocate(most, "test");
    std::mt19937 random(1);
    for (size_t bytes :
         {size_t(0), size_t(1), buffer - 1, buffer, buffer + 1, 2 * buffer, 4 * buffer + 3, most}) {
      Expected<Staging> staging = Staging::create(device, buffer);
      ASSERT_TRUE(staging);
      std::vector<std::byte> sent(bytes), got(bytes);
      for (std::byte &b : sent)
        b = std::byte(random());
      std::vector<std::byte> given = sent;
      // In two parts, the host's bytes gone after each.
      size_t half = bytes / 2;
      ASSERT_TRUE(staging->upload(memory.pointer(), std::span(given).first(half)));
      std::fill_n(given.begin(), half, std::byte());
      ASSERT_TRUE(staging->upload(memory.pointer() + half, std::span(given).subspan(half)));
      std::fill(given.begin(), given.end(), std::byte());
      ASSERT_TRUE(staging->finish());
      ASSERT_TRUE(staging->download(got, memory.pointer()));
      EXPECT_EQ(got, sent) << bytes;
    }
  }
  EXPECT_EQ(fake.live(), 0u);
}

TEST(CudaStaging, EveryEntryPoint) {
  FakeCuda fake;
  for (const char *entry : {"cuMemHostAlloc:1", "cuMemHostAlloc:2", "cuStreamCreate:1",
                            "cuStreamCreate:2", "cuMemcpyHtoDAsync:1", "cuMemcpyHtoDAsync:3",
                            "cuStreamSynchronize:3", "cuMemcpyDtoHAsync:1", "cuCtxSetCurrent:7"}) {
    fake.configure("fail=" + std::string(entry) + ":719");
    auto device = *Device::open(0);
    Status status = [&]() -> Status {
      Expected<Memory> memory = device->allocate(3000, "test");
      if (!memory)
        return memory.status();
      Expected<Staging> staging = Staging::create(device, 1000);
      if (!staging)
        return staging.status();
      std::vector<std::byte> bytes(3000);
      if (Status sent = staging->upload(memory->pointer(), bytes); !sent)
        return sent;
      return staging->download(bytes, memory->pointer());
    }();
    ASSERT_FALSE(status) << entry;
    std::string name(entry, std::string_view(entry).find(':'));
    EXPECT_PRED2(startsWith, status.error().message,
                 "cuda:0 (Fake GPU): " + name + ": CUDA_ERROR_LAUNCH_FAILED");
    device.reset();
    EXPECT_EQ(fake.live(), 0u) << entry;
  }
}

} // namespace
