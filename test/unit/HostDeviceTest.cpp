#include "runtime/device/HostDevice.h"
#include "runtime/device/CpuFeatures.h"
#include "runtime/device/KernelObject.h"
#include "runtime/support/File.h"

#include <gtest/gtest.h>

using namespace gemma;

namespace {

std::string object(const std::string &name) {
  Expected<std::string> bytes =
      readWholeFile(std::string(GEMMA_TEST_OBJECTS) + "/" + name + ".so", 1 << 20);
  EXPECT_TRUE(bytes.ok()) << (bytes.ok() ? "" : bytes.error().message);
  return bytes ? *bytes : "";
}

std::string refusal(const std::string &elf) {
  Expected<KernelObject> loaded = KernelObject::load(elf, "object");
  return loaded ? "" : loaded.error().message;
}

TEST(KernelObject, LoadsAndFindsKernels) {
  Expected<KernelObject> loaded = KernelObject::load(object("CacheKernels"), "object");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_TRUE(loaded->kernel("toy_append").ok());
  Expected<GemmaKernel> missing = loaded->kernel("nothing");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().message, "object: no kernel nothing");
  // Nothing of it is visible outside.
  Expected<KernelObject> second = KernelObject::load(object("CacheKernels"), "object");
  EXPECT_TRUE(second.ok());
}

TEST(KernelObject, RefusesWhatRunsOrNeedsAnything) {
  EXPECT_EQ(refusal(object("Plain")), "");
  EXPECT_NE(refusal(object("Initialised")).find("runs when it is loaded"), std::string::npos);
  EXPECT_NE(refusal(object("NeedsLibrary")).find("needs a library"), std::string::npos);
  std::string undefined = refusal(object("Undefined"));
  EXPECT_TRUE(undefined.find("relocation") != std::string::npos ||
              undefined.find("\"cos\"") != std::string::npos)
      << undefined;
  EXPECT_NE(refusal(""), "");
  EXPECT_NE(refusal("\177ELF"), "");
}

// Checks alone: whatever byte is damaged, the check ends; nothing is loaded.
TEST(KernelObject, DamagedFilesAreCheckedWithoutACrash) {
  std::string whole = object("Plain");
  for (size_t length = 0; length < whole.size(); length += length < 600 ? 1 : 61)
    (void)checkKernelElf(whole.substr(0, length), "object");
  size_t refused = 0;
  for (size_t at = 0; at < std::min<size_t>(whole.size(), 1200); ++at)
    for (int byte : {0x00, 0x01, 0x7f, 0xff}) {
      std::string damaged = whole;
      damaged[at] = char(byte);
      refused += !checkKernelElf(damaged, "object").ok();
    }
  EXPECT_GT(refused, 100u);
  EXPECT_FALSE(checkKernelElf(whole.substr(0, 200), "object").ok());
}

TEST(ChooseIsa, TakesTheMostDemandingThatTheProcessorHas) {
  std::vector<std::string> none, impossible = {"avx9000"}, basic = {"sse2"};
  std::vector<IsaCandidate> candidates = {
      {"baseline", none}, {"better", basic}, {"future", impossible}};
  Expected<size_t> chosen = chooseIsa(candidates, "");
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(*chosen, 1u);
  std::vector<IsaCandidate> reversed(candidates.rbegin(), candidates.rend());
  EXPECT_EQ(*chooseIsa(reversed, ""), 1u);
  EXPECT_EQ(*chooseIsa(candidates, "baseline"), 0u);
  Expected<size_t> refused = chooseIsa(candidates, "future");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("avx9000"), std::string::npos);
  refused = chooseIsa(candidates, "other");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("baseline, better, future"), std::string::npos);
  EXPECT_FALSE(chooseIsa(std::span(candidates).subspan(2), "").ok());
}

TEST(CpuFeatures, AgreeWithTheCompiler) {
#if defined(__x86_64__)
  EXPECT_TRUE(cpuFeatures().contains("sse2"));
  EXPECT_EQ(cpuFeatures().contains("avx2"), bool(__builtin_cpu_supports("avx2")));
  EXPECT_EQ(cpuFeatures().contains("fma"), bool(__builtin_cpu_supports("fma")));
  EXPECT_EQ(cpuFeatures().contains("avx512f"), bool(__builtin_cpu_supports("avx512f")));
  EXPECT_EQ(cpuFeatures().contains("avx512vnni"), bool(__builtin_cpu_supports("avx512vnni")));
  EXPECT_EQ(cpuFeatures().contains("avx512bf16"), bool(__builtin_cpu_supports("avx512bf16")));
#endif
  EXPECT_FALSE(cpuName().empty());
}

} // namespace
